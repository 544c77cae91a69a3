// Calls an operation on behalf of the caller and reports errors with SearchClaw's field names. Pure.
import { numberOf } from '../../runtime/json.ts';
import { callUnchecked, type DialectCall } from '../../dialect.ts';
import { systemClock } from '../../runtime/clock.ts';
import { inTheirNames } from './errors.ts';
import type { Contract, OutputOf } from '../../contract.ts';

export type Fields = Record<string, unknown>;
export type Api = (call: DialectCall, input: Fields) => Promise<Fields>;

export async function run<C extends Contract>(
  call: DialectCall,
  contract: C,
  input: Fields,
): Promise<OutputOf<C>> {
  try {
    return await callUnchecked(call, contract, input);
  } catch (error) {
    throw inTheirNames(error, contract.name);
  }
}

/** Clients time out after 30 s. Slower calls return a job before that. */
const waitMs = 25_000;

/** Adds the elapsed time, which every SearchClaw response contains. */
export async function timed<C extends Contract>(call: DialectCall, contract: C, input: Fields) {
  const start = systemClock.now();
  const out = await run(call, contract, { waitMs, ...input });
  return { out, response_time_ms: systemClock.now() - start };
}

export function given(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** A warning about unsupported options. */
export function notUsed(input: Fields, ...names: string[]): Fields {
  const unsupported = names.filter(
    (name) => ![undefined, null, 'none'].includes(input[name] as null),
  );
  return unsupported.length > 0 ? { notice: `${unsupported.join(', ')}: not used here.` } : {};
}

export const number = (value: unknown): number | undefined =>
  value === undefined || value === null || value === '' ? undefined : numberOf(value);

/** For slow work: the job continues, and job_status reports it. */
export function pending(out: Fields): Fields {
  return { job_id: out.id, status: 'processing', poll_url: `/v1/jobs/${String(out.id)}` };
}
