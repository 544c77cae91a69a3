// The last lines of what a job printed, exactly: as many bytes are read back as they take, however many that are.
import type { Client } from '../client.ts';

export interface TailWish {
  id: string;
  attempt?: number;
  lines: number;
}

export interface Tail {
  parts: { stream: string; bytes: Buffer }[];
  /** Where following goes on. */
  cursor: string;
}

const firstSpanBytes = 65_536;
const spanGrowth = 8;
const newline = 10;

/** Of a job with split streams: the last lines of each. */
export async function readTail(client: Client, { lines, ...wish }: TailWish): Promise<Tail> {
  const { output } = await client.call<Sizes>('read_output', { ...wish, raw: true, bytesMax: 200 });
  const streams = output.streams ?? [{ stream: 'merged', size: output.size }];
  for (let span = firstSpanBytes; ; span *= spanGrowth) {
    const starts = streams.map(({ stream, size }) => ({ stream, at: Math.max(size - span, 0) }));
    const { texts, cursor } = await readFrom(client, wish, starts);
    const parts = starts.map(({ stream, at }) => {
      const bytes = Buffer.concat(texts.get(stream) ?? []);
      const from = lastLinesStart(bytes, lines);
      return { stream, bytes: bytes.subarray(from ?? 0), whole: at === 0 || from !== undefined };
    });
    if (parts.every(({ whole }) => whole)) return { parts, cursor };
  }
}

interface Sizes {
  size: number;
  streams?: { stream: string; size: number }[];
}

async function readFrom(
  client: Client,
  wish: { id: string; attempt?: number },
  starts: { stream: string; at: number }[],
): Promise<{ texts: Map<string, Buffer[]>; cursor: string }> {
  const texts = new Map<string, Buffer[]>(starts.map(({ stream }) => [stream, []]));
  let cursor = starts.map(({ stream, at }) => `${stream}:${at}`).join(',');
  const input = { ...wish, cursor, raw: true, lossless: true, once: true };
  for await (const { data, id } of client.follow('read_output', input)) {
    const { stream, base64 } = data as { stream?: string; base64?: string };
    if (base64 !== undefined) texts.get(stream!)?.push(Buffer.from(base64, 'base64'));
    cursor = id ?? cursor;
  }
  return { texts, cursor };
}

/** Undefined when there are fewer lines. What comes after the last line end is a line, too. */
function lastLinesStart(bytes: Buffer, lines: number): number | undefined {
  let at = bytes.at(-1) === newline ? bytes.length - 1 : bytes.length;
  if (lines === 0) return bytes.length;
  for (let seen = 0; seen < lines; seen++) {
    at = at === 0 ? -1 : bytes.lastIndexOf(newline, at - 1);
    if (at < 0) return undefined;
  }
  return at + 1;
}
