// Runs the agreed rule: fetches the deliverable, checks its hash, tries each automatic member, and returns a verdict or
// that there is none yet. It changes nothing; evaluation.ts applies the verdict to the job.
import { AppError } from '../../../errors.ts';
import { quoted } from '../../../runtime/untrusted-text.ts';
import type { Deliverable } from '../store/rows.ts';
import type { EscrowSettings } from '../settings.ts';
import type { MemberRule, Rule } from '../terms.ts';
import type { Check } from '../work.ts';
import { hashMatches } from '../hashes.ts';
import { httpCheck, type Get } from './http-check.ts';
import type { SchemaChecks } from './schema-checks.ts';
import { compileSchema } from './schema.ts';
import type { Finding } from './finding.ts';

interface Delivered {
  jobId: string;
  deliverable: Deliverable;
  /** Number of the attempt, from 0. */
  attempt: number;
  /** On the last attempt, an unreachable deliverable counts as not delivered. */
  last: boolean;
}

/** Runs an operator's check as a separate job and returns its exit code once it has ended. */
export type RunCheck = (request: {
  jobId: string;
  n: number;
  attempt: number;
  check: string;
  content: Buffer;
}) => Promise<{ exitCode: number | null; jobId: string } | { waiting: string }>;

interface RuleRunnerDeps {
  settings: EscrowSettings;
  get: Get;
  /** Throws if the address is not allowed. */
  vetUrl(url: string): Promise<void>;
  runCheck: RunCheck | undefined;
  schemas: Pick<SchemaChecks, 'check'>;
}

export class RuleRunner {
  private readonly deps: RuleRunnerDeps;

  constructor(deps: RuleRunnerDeps) {
    this.deps = deps;
  }

  /** Refuses a rule that can never run, before money moves. */
  async refuseImpossible(rule: Rule): Promise<void> {
    if (rule.type === 'quorum') {
      if (rule.need > rule.members.length) {
        throw impossible(`A quorum of ${rule.need} requires at least ${rule.need} members.`);
      }
      for (const member of rule.members) await this.refuseImpossible(member);
      return;
    }
    if (rule.type === 'json_schema') refuseBrokenSchema(rule.schema);
    if (rule.type === 'http_check') {
      try {
        await this.deps.vetUrl(rule.url);
      } catch (error) {
        throw impossible(`The check URL cannot be used: ${(error as Error).message}`);
      }
    }
    if (rule.type === 'command') {
      const known = Object.keys(this.deps.settings.checks);
      if (!this.deps.runCheck || !known.includes(rule.check)) {
        const list =
          known.length > 0 ? `Configured checks: ${known.join(', ')}.` : 'No check is configured.';
        throw impossible(`Check ${rule.check} does not exist. ${list}`);
      }
    }
  }

  /** Why this rule could never read such a delivery; undefined if it can. */
  async problemWith(
    { type }: MemberRule,
    { content, uri }: { content?: string | undefined; uri?: string | undefined },
  ): Promise<string | undefined> {
    if (type === 'manual' || type === 'http_check') return undefined;
    if (content !== undefined)
      return type === 'json_schema' && !isJson(content) ? 'the content is not JSON' : undefined;
    if (uri === undefined) return `${type} needs the content; a hash alone is not enough`;
    if (!/^https?:/.test(uri)) return `${type} supports only http and https URIs`;
    try {
      await this.deps.vetUrl(uri);
      return undefined;
    } catch (error) {
      return `the URI cannot be used: ${(error as Error).message.replace(/\.$/, '')}`;
    }
  }

  async run(rule: MemberRule, delivered: Delivered): Promise<Finding> {
    switch (rule.type) {
      case 'manual':
        return { outcome: 'later', reason: 'a person decides', waits: true };
      case 'http_check':
        return httpCheck(rule, this.deps.get, this.deps.settings.maxHttpTries, delivered.last);
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
    const answer = await this.deps.schemas.check(schema, content.bytes);
    if ('broken' in answer) {
      const reason = `json_schema: the check ${answer.broken}`;
      if (!delivered.last) return { outcome: 'later', reason };
      return rejected(reason, 'the check finishes', answer.broken);
    }
    if (!answer.json) {
      const [criterion, reason] = [
        'deliverable is JSON',
        'json_schema: the deliverable is not JSON',
      ];
      const check = { criterion, met: false, evidence: 'it cannot be parsed' };
      return { outcome: 'rejected', reason, checks: [content.check, check] };
    }
    const met = answer.errors === '';
    // The errors contain field names of the delivery, which the provider wrote.
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
    const run = await this.deps.runCheck!({
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

  /** The exact bytes that match the submitted hash, or why they are missing. */
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
        const answer = await this.deps.get(deliverable.uri, {
          timeoutMs: 15_000,
          maxBytes: this.deps.settings.maxDeliverableBytes,
        });
        if (answer.status !== 200) throw new Error(`status ${answer.status}`);
        bytes = answer.body;
      } catch (error) {
        // The message contains the address, or that of a redirect, which the provider wrote.
        const evidence = quoted((error as Error).message);
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
    const criterion = 'content hash matches the submitted hash';
    if (!hashMatches(bytes, deliverable.hash)) {
      return rejected(
        'content hash mismatch',
        criterion,
        `${bytes.length} bytes with a different hash`,
      );
    }
    return { bytes, check: { criterion, met: true, evidence: deliverable.hash } };
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function rejected(reason: string, criterion: string, evidence: string): Finding {
  return { outcome: 'rejected', reason, checks: [{ criterion, met: false, evidence }] };
}

/** A refused address or an oversized body stays refused on every attempt. */
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
    hint: 'Rules that can never run are rejected before money is at stake. Correct the rule and post the job again.',
  });
}
