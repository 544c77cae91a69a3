// Selects the output excerpt that a job response includes by default: error lines and the end for a failure, otherwise
// only the end.
import { isFinal, type Job } from '../../../jobs/job.ts';
import type { CommandInput } from '../input.ts';
import { formatNumber } from './text.ts';
import type { OutputResponse, OutputRequest } from './request.ts';

const maxExcerptBytes = 2000;
/** A success needs less text. */
const maxSuccessBytes = 1000;
/** A failure with less output than this is shown completely. */
const maxWholeBytes = 1500;
const maxEndBytes = 400;
const minReadBytes = 200;

export async function readExcerpt(
  { status, input }: Job,
  read: (request: OutputRequest) => Promise<OutputResponse>,
  maxBytes = maxExcerptBytes,
): Promise<OutputResponse> {
  if ((input as CommandInput).tty && !isFinal(status)) return read({ mode: 'screen', maxBytes });
  const isFailure = isFinal(status) && status !== 'completed' && status !== 'cancelled';
  const within = (limit: number) => Math.max(minReadBytes, Math.min(limit, maxBytes));
  const tailBytes = isFailure ? maxWholeBytes : maxSuccessBytes;
  const tail = await read({ mode: 'tail', maxBytes: within(tailBytes) });
  if (tail.omitted === undefined) return tail;
  if (!isFailure) return markCut(tail);
  const errors = await read({ mode: 'errors', maxBytes: within(maxBytes - maxEndBytes) });
  if (!errors.matches) return markCut(tail);
  const end = await read({ mode: 'tail', maxBytes: within(maxEndBytes) });
  const rest = end.text.split('\n').filter((line) => line !== '' && !errors.text.includes(line));
  return {
    ...end,
    text: [errors.text.trimEnd(), ...(rest.length > 0 ? ['…', ...rest] : []), ''].join('\n'),
  };
}

/** Marks the cut, so that a reader sees that there is more even for a single long line. */
function markCut(tail: OutputResponse): OutputResponse {
  const bytes = tail.omitted?.bytes ?? 0;
  return bytes === 0
    ? tail
    : { ...tail, text: `[… ${formatNumber(bytes)} bytes before this]\n${tail.text}` };
}
