// What a remote says of a job's end as an outcome here, and the ends that come from the line to it.
import type { Outcome } from '../../../jobs/kind.ts';
import type { Results } from '../results.ts';
import type { Remote } from '../spec.ts';

/** The end a job had at a remote: kept with the attempt, so that a retry can be asked for there. */
export interface EndThere {
  id: string;
  /** Which remote it was. */
  at: string;
  status: unknown;
  delayTime?: unknown;
  executionTime?: unknown;
  workerId?: unknown;
  retries?: unknown;
}

export const addressOf = ({ baseUrl, endpointId }: Remote): string =>
  `${baseUrl.replace(/\/$/, '')}/${endpointId}`;

export function endThere(id: string, remote: Remote, body: Record<string, unknown>): EndThere {
  const { status, delayTime, executionTime, workerId, retries } = body;
  return { id, at: addressOf(remote), status, delayTime, executionTime, workerId, retries };
}

const endWords: unknown[] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'];

/** Anything else is some way of not being over. */
export const isEnd = (status: unknown): boolean => endWords.includes(status);

export function outcomeOf(
  body: Record<string, unknown>,
  remote: EndThere,
  keep: { results: Results; attemptId: string },
): Outcome {
  const { status, output, error } = body;
  const size = output === undefined ? 0 : (JSON.stringify(output)?.length ?? 0);
  const kept = output === undefined ? {} : keep.results.keep(keep.attemptId, output, size);
  const facts = { ...kept.facts, remote };
  const message = typeof error === 'string' ? error : JSON.stringify(error ?? status);
  switch (status) {
    case 'COMPLETED':
      return { type: 'completed', ...kept, facts };
    case 'CANCELLED':
      return {
        type: 'cancelled',
        error: { code: 'cancelled', message: 'It was cancelled at the remote.' },
        ...kept,
        facts,
      };
    case 'TIMED_OUT':
      return {
        type: 'timed_out',
        error: { code: 'queueTimeout', message },
        retry: false,
        ...kept,
        facts,
      };
    default: {
      // RunPod calls it FAILED; here, as for every kind, it timed out.
      const type = message === 'executionTimeout exceeded' ? 'timed_out' : 'failed';
      const code = type === 'timed_out' ? 'executionTimeout' : 'handlerError';
      return { type, error: { code, message }, retry: false, ...kept, facts };
    }
  }
}

export function failure(code: string, message: string, hint?: string): Outcome {
  const error = { code, message, ...(hint === undefined ? {} : { hint }) };
  return { type: 'failed', error, retry: false };
}

export function forgotten({ status, message }: { status: number; message: string }): Outcome {
  return failure('remoteForgot', `The remote no longer knows it (${status}: ${message}).`);
}

/** A key that is wrong today may be right tomorrow; it says nothing about the job. */
export function isAboutKey({ status }: { status: number }): boolean {
  return status === 401 || status === 402 || status === 403;
}

export function unknownFate({ baseUrl }: Remote): Outcome {
  return {
    type: 'failed',
    error: {
      code: 'submitUnknown',
      message: `It was sent to ${baseUrl}, no answer came, and that remote cannot say whether it has the job: it may run there, or not.`,
      hint: 'Look at the requests of the endpoint there; if it is not among them, retry_job sends it again. Nothing is ever sent twice by itself.',
    },
    retry: false,
  };
}
