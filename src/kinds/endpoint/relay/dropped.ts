// Results that a worker could not post. RunPod's package only logs this, with the job and the reason, and continues
// with the next job, so the log is the only source.
import { closeSync, openSync, readSync } from 'node:fs';

interface Dropped {
  jobId: string;
  error: string;
}

/** Maximum size of one read: a message about a dropped result is among the last lines. */
const maxLookBytes = 1024 * 1024;
const mark =
  /^(?:\[batchId=[^\]]*\] )?(Failed to return job results|Error while returning job result)\. \| /;
const marks = ['Failed to return job results.', 'Error while returning job result.'];

/** Finds the messages in this part of a log. `next` is the start of the first incomplete line. */
export function findDroppedResults(
  path: string,
  from: number,
  to: number,
): { dropped: Dropped[]; next: number } {
  const start = Math.max(from, to - maxLookBytes);
  if (to <= start) return { dropped: [], next: to };
  const bytes = Buffer.alloc(to - start);
  const fd = openSync(path, 'r');
  const length = readSync(fd, bytes, 0, bytes.length, start);
  closeSync(fd);
  const part = bytes.subarray(0, bytes.lastIndexOf(10, length - 1) + 1);
  const isFound = marks.some((text) => part.includes(text));
  const dropped = isFound ? part.toString('utf8').split('\n').flatMap(droppedBy) : [];
  // A line longer than one read is never complete.
  return {
    dropped,
    next: start + (part.length > 0 || length < maxLookBytes ? part.length : length),
  };
}

function droppedBy(line: string): Dropped[] {
  if (!line.startsWith('{') || !marks.some((text) => line.includes(text))) return [];
  try {
    const { requestId, message, level } = JSON.parse(line) as Record<string, unknown>;
    if (typeof requestId !== 'string' || typeof message !== 'string' || level !== 'ERROR')
      return [];
    return mark.test(message) ? [{ jobId: requestId, error: message }] : [];
  } catch {
    return [];
  }
}
