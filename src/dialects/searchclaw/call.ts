// What every call of the dialect is made of: an operation in the caller's name, with errors in the names they wrote. Pure.
import { numberOf } from '../../runtime/json.ts';
import type { DialectCall } from '../../dialect.ts';
import { systemClock } from '../../runtime/clock.ts';
import { inTheirNames } from './errors.ts';

export type Fields = Record<string, unknown>;
export type Api = (call: DialectCall, input: Fields) => Promise<Fields>;

export async function run<T = Fields>(call: DialectCall, name: string, input: Fields): Promise<T> {
  try {
    return await call.operations.call<T>(name, input, call.context);
  } catch (error) {
    throw inTheirNames(error, name);
  }
}

/** Its clients give up after 30 s: what takes longer is answered as a job before. */
const waitMs = 25_000;

/** With the time it took, which stands in every answer of theirs. */
export async function timed<T = Fields>(call: DialectCall, name: string, input: Fields) {
  const start = systemClock.now();
  const out = await run<T>(call, name, { waitMs, ...input });
  return { out, response_time_ms: systemClock.now() - start };
}

export function given(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** What the original has and nothing here could do is said. */
export function notUsed(input: Fields, ...names: string[]): Fields {
  const odd = names.filter((name) => ![undefined, null, 'none'].includes(input[name] as null));
  return odd.length > 0 ? { notice: `${odd.join(', ')}: not used here.` } : {};
}

export const number = (value: unknown): number | undefined =>
  value === undefined || value === null || value === '' ? undefined : numberOf(value);

/** Longer than one call may take: the job goes on, and job_status follows it. */
export function pending(out: Fields): Fields {
  return { job_id: out.jobId, status: 'processing', poll_url: `/v1/jobs/${String(out.jobId)}` };
}
