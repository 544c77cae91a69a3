// Requests of a batch as they wait to be queued: one stored row each.
import { newJobId } from '../../../jobs/job.ts';
import { decodeJson, isRecord } from '../../../runtime/json.ts';
import type { RunWish } from '../intake.ts';
import type { Draft } from './store.ts';

/** A draft whose row cannot be decoded is a request that failed. */
export function wishOf({ jobId, body }: Draft, parentId: string): RunWish {
  const decoded = decodeJson(body);
  if (decoded && isRecord(decoded.value))
    return { ...(decoded.value as unknown as RunWish), id: jobId, parentId };
  const message = 'The stored request cannot be decoded.';
  return { input: {}, id: jobId, parentId, failed: { code: 'undecodable', message } };
}

export function draftsOf(requests: readonly RunWish[], after: number) {
  return requests.map((request, i) => ({
    n: after + i + 1,
    jobId: newJobId(),
    body: JSON.stringify(request),
  }));
}
