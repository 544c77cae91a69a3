// Runs the rule that was agreed on: fetches the deliverable, checks its hash, tries each automatic member, and answers a
// verdict, or that it is too early for one. It changes nothing; the evaluation service brings the verdict to the job.
import { AppError } from '../../../errors.ts';
import { quoted } from '../../../runtime/foreign-text.ts';
import type { Deliverable } from '../rows.ts';
import type { EscrowSettings } from '../settings.ts';
import type { MemberRule, Rule } from '../terms.ts';
import type { Check } from '../work.ts';
import { hashMatches } from '../hashes.ts';
import { httpCheck, type Get } from './http-check.ts';
import type { SchemaChecks } from './schema-checks.ts';
import { compileSchema } from './schema.ts';

/** `later`: no verdict now, with the reason; it is tried again. */
export type Finding =
  | { outcome: 'approved' | 'rejected'; reason: string; checks: Check[] }
  | { outcome: 'later'; reason: string; waits?: boolean };

export interface Delivered {
  jobId: string;
  deliverable: Deliverable;
  /** Number of the try, from 0. */
  attempt: number;
  /** The last try: what cannot be reached then counts as not delivered. */
  last: boolean;
}

/** Runs an operator's check as a job of its own and tells its exit code once it is over. */
export type RunCheck = (request: {
  jobId: string;
  n: number;
  attempt: number;
  check: string;
  content: Buffer;
}) => Promise<{ exitCode: number | null; jobId: string } | { waiting: string }>;

export interface RunnerParts {
  settings: EscrowSettings;
  get: Get;
  /** Throws when the address may never be reached. */
  vetUrl(url: string): Promise<void>;
  runCheck: RunCheck | undefined;
  schemas: Pick<SchemaChecks, 'check'>;
}

export class RuleRunner {
  private readonly parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.parts = parts;
  }

  /** Before any money: a rule that can never run is no rule. */
  async refuseImpossible(rule: Rule): Promise<void> {
    if (rule.type === 'quorum') {
      if (rule.need > rule.members.length) {
        throw impossible(`A quorum of ${rule.need} needs at least as many members.`);
      }
      for (const member of rule.members) await this.refuseImpossible(member);
      return;
    }
    if (rule.type === 'json_schema') refuseBrokenSchema(rule.schema);
    if (rule.type === 'http_check') {
      try {
        await this.parts.vetUrl(rule.url);
      } catch (error) {
        throw impossible(`The address of the check cannot be used: ${(error as Error).message}`);
      }
    }
    if (rule.type === 'command') {
      const known = Object.keys(this.parts.settings.checks);
      if (!this.parts.runCheck || !known.includes(rule.check)) {
        const list = known.length > 0 ? `Configured: ${known.join(', ')}.` : 'None is configured.';
        throw impossible(`There is no check called ${rule.check}. ${list}`);
      }
    }
  }

  /** Why this rule could never read such a delivery; undefined when it can. */
  async problemWith(
    { type }: MemberRule,
    { content, uri }: { content?: string | undefined; uri?: string | undefined },
  ): Promise<string | undefined> {
    if (type === 'manual' || type === 'http_check' || content !== undefined) return undefined;
    if (uri === undefined) return `${type} needs the content, and a hash alone does not have it`;
    if (!/^https?:/.test(uri)) return `${type} fetches http and https addresses only`;
    try {
      await this.parts.vetUrl(uri);
      return undefined;
    } catch (error) {
      return `the address cannot be used: ${(error as Error).message.replace(/\.$/, '')}`;
    }
  }

  async run(rule: MemberRule, delivered: Delivered): Promise<Finding> {
    switch (rule.type) {
      case 'manual':
        return { outcome: 'later', reason: 'a person decides', waits: true };
      case 'http_check':
        return httpCheck(rule, this.parts.get, this.parts.settings.httpTriesMax, delivered.last);
      case 'json_schema':
        return this.jsonSchema(rule.schema, delivered);
      case 'command':
        return this.command(rule.check, delivered);
    }
  }

  private async jsonSchema(
    schema: Record<string, unknown>,
    delivered: Delivered,
  ): Promise<Finding> {
    const content = await this.content(delivered);
    if ('outcome' in content) return content;
    const answer = await this.parts.schemas.check(schema, content.bytes);
    if ('broken' in answer) {
      const reason = `json_schema: the check ${answer.broken}`;
      if (!delivered.last) return { outcome: 'later', reason };
      return rejected(reason, 'the check comes to an end', answer.broken);
    }
    if (!answer.json) {
      const [criterion, reason] = [
        'deliverable is JSON',
        'json_schema: the deliverable is not JSON',
      ];
      const check = { criterion, met: false, evidence: 'it does not parse' };
      return { outcome: 'rejected', reason, checks: [content.check, check] };
    }
    const met = answer.errors === '';
    // The errors name fields of the delivery: those are the provider's words.
    const evidence = met ? 'valid' : quoted(answer.errors);
    const check = { criterion: 'matches the JSON Schema', met, evidence };
    return {
      outcome: met ? 'approved' : 'rejected',
      reason: `json_schema: ${evidence}`,
      checks: [content.check, check],
    };
  }

  private async command(check: string, delivered: Delivered): Promise<Finding> {
    const content = await this.content(delivered);
    if ('outcome' in content) return content;
    const { n } = delivered.deliverable;
    const run = await this.parts.runCheck!({
      jobId: delivered.jobId,
      n,
      attempt: delivered.attempt,
      check,
      content: content.bytes,
    });
    if ('waiting' in run) return { outcome: 'later', reason: run.waiting, waits: true };
    const met = run.exitCode === 0;
    const evidence = `exit code ${run.exitCode ?? 'unknown'} (${run.jobId})`;
    if (run.exitCode === null && !delivered.last) return { outcome: 'later', reason: evidence };
    return {
      outcome: met ? 'approved' : 'rejected',
      reason: `command ${check}: ${evidence}`,
      checks: [content.check, { criterion: `check ${check} passes`, met, evidence }],
    };
  }

  /** The exact bytes that the provider promised, or why there are none. */
  private async content(delivered: Delivered): Promise<{ bytes: Buffer; check: Check } | Finding> {
    const { deliverable, last } = delivered;
    let bytes: Buffer;
    if (deliverable.content !== null) bytes = Buffer.from(deliverable.content, 'utf8');
    else if (deliverable.uri === null) {
      return rejected(
        'nothing was delivered inline or by URI',
        'deliverable can be read',
        'hash only',
      );
    } else {
      try {
        const answer = await this.parts.get(deliverable.uri, {
          timeoutMs: 15_000,
          bytesMax: this.parts.settings.deliverableBytesMax,
        });
        if (answer.status !== 200) throw new Error(`status ${answer.status}`);
        bytes = answer.body;
      } catch (error) {
        const evidence = (error as Error).message;
        if (!last && !isRefused(error)) {
          return { outcome: 'later', reason: `deliverable unreachable: ${evidence}` };
        }
        return rejected(
          `deliverable unreachable: ${evidence}`,
          'deliverable can be read',
          evidence,
        );
      }
    }
    const criterion = 'content hash is the one that was submitted';
    if (!hashMatches(bytes, deliverable.hash)) {
      return rejected(
        'content hash mismatch',
        criterion,
        `${bytes.length} bytes with another hash`,
      );
    }
    return { bytes, check: { criterion, met: true, evidence: deliverable.hash } };
  }
}

function rejected(reason: string, criterion: string, evidence: string): Finding {
  return { outcome: 'rejected', reason, checks: [{ criterion, met: false, evidence }] };
}

/** A guarded address stays refused however often it is tried; so does a body that is too large. */
const isRefused = (error: unknown): boolean =>
  error instanceof AppError && ['egressRefused', 'egressTooLarge'].includes(error.code);

function refuseBrokenSchema(schema: Record<string, unknown>): void {
  try {
    compileSchema(schema);
  } catch (error) {
    throw impossible(`The JSON Schema cannot be used: ${(error as Error).message}`);
  }
}

function impossible(message: string): AppError {
  return new AppError('ruleCannotRun', message, {
    hint: 'A rule that can never run is refused before money is at stake: correct it and post again.',
  });
}
