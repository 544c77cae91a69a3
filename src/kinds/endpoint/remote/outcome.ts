// Turns the end of a job on a remote into an outcome, and defines outcomes of failed communication.
import type { Outcome } from '../../../jobs/kind.ts';
import type { Results } from '../jobs/results.ts';
import type { Remote } from '../spec.ts';

/** How a job ended on a remote. Stored with the attempt, so that a retry can be requested there. */
export interface RemoteEnd {
  id: string;
  /** Address of the remote. */
  at: string;
  status: unknown;
  delayTime?: unknown;
  executionTime?: unknown;
  workerId?: unknown;
  retries?: unknown;
}

export const addressOf = ({ baseUrl, endpointId }: Remote): string =>
  `${baseUrl.replace(/\/$/, '')}/${endpointId}`;

export function toRemoteEnd(id: string, remote: Remote, body: Record<string, unknown>): RemoteEnd {
  const { status, delayTime, executionTime, workerId, retries } = body;
  return { id, at: addressOf(remote), status, delayTime, executionTime, workerId, retries };
}

const failedWords: unknown[] = ['FAILED', 'TIMED_OUT'];
const retryWords: unknown[] = [...failedWords, 'CANCELLED'];
const endWords: unknown[] = [...retryWords, 'COMPLETED'];

export const isQueued = (status: unknown): boolean => status === 'IN_QUEUE';
export const isRunning = (status: unknown): boolean => status === 'IN_PROGRESS';
/** The remote would rerun the job. */
export const hasFailed = (status: unknown): boolean => failedWords.includes(status);
export const endedWithoutResult = (status: unknown): boolean => retryWords.includes(status);

/** Any other status means that the job has not ended. */
export const isEnd = (status: unknown): boolean => endWords.includes(status);

export function outcomeOf(
  body: Record<string, unknown>,
  remote: RemoteEnd,
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
        error: { code: 'cancelled', message: 'The job was cancelled on the remote.' },
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
      // RunPod reports FAILED. Here it is timed_out, as for every kind.
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
  return failure('remoteForgot', `The remote no longer knows the job (${status}: ${message}).`);
}

/** A rejected key may be fixed later and says nothing about the job. */
export function isAboutKey({ status }: { status: number }): boolean {
  return status === 401 || status === 402 || status === 403;
}

export function submitUnknown({ baseUrl }: Remote): Outcome {
  return {
    type: 'failed',
    error: {
      code: 'submitUnknown',
      message: `The job was sent to ${baseUrl}, but no response came, and that remote cannot report whether it has the job. It may or may not be running there.`,
      hint: 'Check the requests of the endpoint there. If the job is not among them, retry_job sends it again. Errand never sends it twice on its own.',
    },
    retry: false,
  };
}
