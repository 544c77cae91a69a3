// The http_check rule: a guarded GET with retries; status, body hash or JSON fields decide.
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '../../../errors.ts';
import { ownValue } from '../../../runtime/by-name.ts';
import { isRecord } from '../../../runtime/json.ts';
import { quoted } from '../../../runtime/untrusted-text.ts';
import { hashMatches } from '../hashes.ts';
import type { MemberRule } from '../terms.ts';
import type { Check } from '../work.ts';
import type { Finding } from './finding.ts';

interface GetResponse {
  status: number;
  body: Buffer;
}

/** One guarded request; throws if there is no response. */
export type Get = (
  url: string,
  limits: { timeoutMs: number; maxBytes: number },
) => Promise<GetResponse>;

type HttpRule = Extract<MemberRule, { type: 'http_check' }>;

const maxBodyBytes = 1_000_000;

export async function httpCheck(
  rule: HttpRule,
  get: Get,
  maxTries: number,
  last: boolean,
): Promise<Finding> {
  let problem = '';
  for (let tries = 0; tries < maxTries; tries++) {
    try {
      const answer = await get(rule.url, { timeoutMs: rule.timeoutMs, maxBytes: maxBodyBytes });
      const checks = checksOf(rule, answer);
      const bad = checks.filter(({ met }) => !met);
      if (bad.length === 0) {
        return { outcome: 'approved', reason: `http_check: ${answer.status} OK`, checks };
      }
      const reason = `http_check: ${bad.map(({ evidence }) => evidence).join('; ')}`;
      // A failing server may recover; a wrong response stays wrong.
      if (answer.status < 500 || answer.status === rule.expectedStatus || last) {
        return { outcome: 'rejected', reason, checks };
      }
      problem = `status ${answer.status}`;
    } catch (error) {
      // The message contains the address, which a party wrote.
      problem = quoted((error as Error).message);
      if (error instanceof AppError && error.code === 'egressRefused') return refused(problem);
    }
  }
  if (!last) return { outcome: 'later', reason: `http_check: ${problem}` };
  return refused(problem);
}

function refused(problem: string): Finding {
  const checks = [{ criterion: 'address responds', met: false, evidence: problem }];
  return { outcome: 'rejected', reason: `http_check: ${problem}`, checks };
}

function checksOf(rule: HttpRule, answer: GetResponse): Check[] {
  const checks: Check[] = [
    {
      criterion: `status is ${rule.expectedStatus}`,
      met: answer.status === rule.expectedStatus,
      evidence: `status ${answer.status}`,
    },
  ];
  if (rule.bodyHash !== undefined) {
    const met = hashMatches(answer.body, rule.bodyHash);
    const evidence = met ? rule.bodyHash : `${answer.body.length} bytes with a different hash`;
    checks.push({ criterion: 'body has the agreed hash', met, evidence });
  }
  if (rule.jsonMatch !== undefined) {
    const problem = mismatch(rule.jsonMatch, answer.body);
    checks.push({
      criterion: 'JSON body has the agreed fields',
      met: problem === undefined,
      evidence: problem ?? 'all fields match',
    });
  }
  return checks;
}

function mismatch(wanted: Record<string, unknown>, body: Buffer): string | undefined {
  let found: unknown;
  try {
    found = JSON.parse(body.toString('utf8'));
  } catch {
    return 'the body is not JSON';
  }
  for (const [name, value] of Object.entries(wanted)) {
    const present = isRecord(found) ? ownValue(found, name) : undefined;
    if (!isDeepStrictEqual(present, value)) return `field ${quoted(name)} differs`;
  }
  return undefined;
}
