// One item of a stream, and its JSON encoding.
import { AppError } from './errors.ts';

export interface StreamItem {
  event: string;
  data: unknown;
  /** Binary content. Interfaces send it unchanged where they can, otherwise as `base64` in `data`. Valid until the next item. */
  bytes?: Buffer;
  /** `data` as JSON, for items that many streams share. */
  encoded?: string;
  /** Cursor from which a client resumes after a broken connection (the SSE id). */
  id?: string;
}

/** The item's data as JSON. Bytes are appended by hand, because JSON.stringify would scan the base64 text again. */
export function itemData({ data, bytes, encoded }: Omit<StreamItem, 'event' | 'id'>): string {
  if (encoded !== undefined) return encoded;
  if (!bytes) return JSON.stringify(data ?? null);
  return `${itemHead(data)}"base64":"${bytes.toString('base64')}"}`;
}

/** JSON of an object without its closing brace, so that one more field can follow. */
export function itemHead(data: unknown): string {
  const json = JSON.stringify(data ?? {});
  return json === '{}' ? '{' : `${json.slice(0, -1)},`;
}

/** The item as one line of JSON. */
export function itemLine({ event, id, ...item }: StreamItem): string {
  const head = JSON.stringify({ event, ...(id === undefined ? {} : { id }) });
  return `${head.slice(0, -1)},"data":${itemData(item)}}\n`;
}

export function notFollowed(name: string): AppError {
  return new AppError(
    'notAcceptable',
    `${name} responds once and cannot be followed as a stream.`,
    {
      hint: 'Ask for application/json, without `follow`. To wait for jobs use wait_for_jobs.',
    },
  );
}
