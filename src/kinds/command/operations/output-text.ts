// Formats job output: as text for a model or a person, and as the few fields that a model needs.
import { isFinal } from '../../../jobs/job.ts';
import { formatNumber } from '../output/text.ts';
import type { OutputResponse } from '../output/request.ts';

export function stateText(response: Pick<OutputResponse, 'id' | 'status' | 'exitCode' | 'signal'>) {
  const { id, status, exitCode, signal } = response;
  const code = exitCode === null ? '' : ` · exit code ${exitCode}`;
  return `${id} ${status}${code}${signal ? ` · signal ${signal}` : ''}`;
}

export function outputText(response: OutputResponse): string {
  const count =
    response.matches === undefined ? '' : ` · ${formatNumber(response.matches)} matches`;
  const places = response.streams
    ? response.streams.map((part) => `${part.stream} ${placeText(part)}`).join(', ') +
      ' · order between them unknown'
    : placeText(response);
  const head = `${stateText(response)}${count} · ${places}`;
  // The text itself marks the gap between head and tail.
  const isMarked = response.mode === 'head_tail' && !response.streams;
  const notes = response.omitted && !isMarked ? `\n[${response.omitted.reason}]` : '';
  return `${head}\n${response.text || emptyText(response)}${notes}`;
}

const placeText = ({ from, next, size }: { from: number; next: number; size: number }): string =>
  `bytes ${from}–${next} of ${size}`;

function emptyText({ status, matches, size, from, mode }: OutputResponse): string {
  if (size === 0) return isFinal(status) ? '(no output)' : '(no output yet)';
  if (matches !== undefined) return matches === 0 ? '(no line matches)' : '(counted only)';
  return mode === 'since' || from >= size ? '(nothing new)' : '(nothing there)';
}

/** The caller knows which job it asked for. If `next` is missing, there is nothing more to read. */
export function briefReading(
  response: Pick<OutputResponse, 'status' | 'exitCode' | 'signal'> & {
    text: string;
    next: number;
    size?: number;
  },
) {
  const { status, exitCode, signal, text, next, size = next } = response;
  const {
    matches,
    omitted: left,
    streams,
    screenCursor,
    hint,
  } = response as Partial<OutputResponse> & { hint?: string };
  const isEnd = isFinal(status) && next >= size;
  return {
    status,
    ...(exitCode === null ? {} : { exitCode }),
    ...(signal === null ? {} : { signal }),
    text,
    ...(matches === undefined ? {} : { matches }),
    ...(streams ? { streams } : isEnd ? {} : { next }),
    ...(screenCursor ? { screenCursor } : {}),
    ...(left ? { omitted: left } : {}),
    ...(hint ? { hint } : {}),
  };
}
