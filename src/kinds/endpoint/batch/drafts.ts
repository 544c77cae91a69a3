// Batch requests that wait to be queued: one stored row each.
import { newJobId } from '../../../runtime/id.ts';
import { decodeJson, isRecord } from '../../../runtime/json.ts';
import type { RunRequest } from '../jobs/submitter.ts';
import type { Draft } from '../store/batches.ts';

/** A draft whose row cannot be decoded becomes a failed request. */
export function toRunRequest({ jobId, body }: Draft, parentId: string): RunRequest {
  const decoded = decodeJson(body);
  if (decoded && isRecord(decoded.value))
    return { ...(decoded.value as unknown as RunRequest), id: jobId, parentId };
  const message = 'The stored request cannot be decoded.';
  return { input: {}, id: jobId, parentId, failed: { code: 'undecodable', message } };
}

export function toDrafts(requests: readonly RunRequest[], after: number) {
  return requests.map((request, i) => ({
    n: after + i + 1,
    jobId: newJobId(),
    body: JSON.stringify(request),
  }));
}
