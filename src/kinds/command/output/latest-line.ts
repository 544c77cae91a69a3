// The last non-empty line of a log, for progress messages.
import { shorten } from './text.ts';
import type { Log } from './log.ts';
import { readTail } from './read.ts';

const windowBytes = 2000;
const maxLineBytes = 200;

export async function latestLine(log: Log): Promise<string | undefined> {
  const { text } = await readTail(log, { maxBytes: windowBytes, raw: false });
  const line = text.split('\n').findLast((one) => one.trim() !== '');
  return line === undefined ? undefined : shorten(line.trim(), maxLineBytes);
}
