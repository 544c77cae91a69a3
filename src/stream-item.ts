// One item of a call that is followed, and its JSON as the interfaces send it.
import { AppError } from './errors.ts';

export interface StreamItem {
  event: string;
  data: unknown;
  /** Content that is no JSON: faces send it as it is where they can, else as `base64` in `data`. Valid until the next item. */
  bytes?: Buffer;
  /** Cursor to go on from after a broken connection (SSE id). */
  id?: string;
}

/** The data of an item as JSON. By hand where there are bytes: a serializer would look at every letter of them again. */
export function itemData({ data, bytes }: Pick<StreamItem, 'data' | 'bytes'>): string {
  if (!bytes) return JSON.stringify(data ?? null);
  return `${itemHead(data)}"base64":"${bytes.toString('base64')}"}`;
}

/** JSON of an object that goes on with one more field. */
export function itemHead(data: unknown): string {
  const json = JSON.stringify(data ?? {});
  return json === '{}' ? '{' : `${json.slice(0, -1)},`;
}

/** A whole item as one line of JSON. */
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
