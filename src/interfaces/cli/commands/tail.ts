// Reads exactly the last lines of job output. Reads larger and larger spans from the end until they contain enough lines.
import type { Client } from '../client.ts';
import type { readOutput } from '../../../contracts/command.ts';

interface TailOptions {
  id: string;
  attempt?: number;
  lines: number;
}

interface Tail {
  parts: { stream: string; bytes: Buffer }[];
  /** Where to continue following. */
  cursor: string;
}

const firstSpanBytes = 65_536;
const spanGrowth = 8;
const newline = 10;

/** With split streams, returns the last lines of each stream. */
export async function readTail(client: Client, { lines, ...request }: TailOptions): Promise<Tail> {
  const { output } = await client.call<typeof readOutput>('read_output', {
    ...request,
    raw: true,
    maxBytes: 200,
  });
  const streams = output.streams ?? [{ stream: 'merged', size: output.size }];
  for (let span = firstSpanBytes; ; span *= spanGrowth) {
    const starts = streams.map(({ stream, size }) => ({ stream, at: Math.max(size - span, 0) }));
    const { texts, cursor } = await readFrom(client, request, starts);
    const parts = starts.map(({ stream, at }) => {
      const bytes = Buffer.concat(texts.get(stream) ?? []);
      const from = lastLinesStart(bytes, lines);
      return {
        stream,
        bytes: bytes.subarray(from ?? 0),
        isComplete: at === 0 || from !== undefined,
      };
    });
    if (parts.every(({ isComplete }) => isComplete)) return { parts, cursor };
  }
}

async function readFrom(
  client: Client,
  request: { id: string; attempt?: number },
  starts: { stream: string; at: number }[],
): Promise<{ texts: Map<string, Buffer[]>; cursor: string }> {
  const texts = new Map<string, Buffer[]>(starts.map(({ stream }) => [stream, []]));
  let cursor = starts.map(({ stream, at }) => `${stream}:${at}`).join(',');
  const input = { ...request, cursor, raw: true, lossless: true, once: true };
  for await (const { data, id } of client.follow('read_output', input)) {
    const { stream, base64 } = data as { stream?: string; base64?: string };
    if (base64 !== undefined) texts.get(stream!)?.push(Buffer.from(base64, 'base64'));
    cursor = id ?? cursor;
  }
  return { texts, cursor };
}

/** Returns undefined if there are fewer lines. Text after the last newline counts as a line. */
function lastLinesStart(bytes: Buffer, lines: number): number | undefined {
  let at = bytes.at(-1) === newline ? bytes.length - 1 : bytes.length;
  if (lines === 0) return bytes.length;
  for (let seen = 0; seen < lines; seen++) {
    at = at === 0 ? -1 : bytes.lastIndexOf(newline, at - 1);
    if (at < 0) return undefined;
  }
  return at + 1;
}
