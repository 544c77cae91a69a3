// Returns the errors of a log for `read_output`: never empty, with the cursor to what is missing.
import type { Clock } from '../../../../runtime/clock.ts';
import type { Log } from '../log.ts';
import { readTail, type Reading, type ReadOptions } from '../read.ts';
import { findErrors } from './find.ts';

interface ErrorReading extends Reading {
  matches: number;
  size: number;
  omitted?: string;
}

export async function readErrors(
  log: Log,
  options: ReadOptions,
  clock: Clock,
  to: number | undefined,
): Promise<ErrorReading> {
  const { earlier, numbered, ...found } = await findErrors(log, options, clock, to);
  const notes: string[] = [];
  if (earlier !== undefined)
    notes.push(`before byte ${earlier}: repeat the call with to ${earlier}`);
  if (!numbered) notes.push('@N is a byte offset: there are too many lines to count');
  const omitted = notes.length === 0 ? {} : { omitted: notes.join('; ') };
  const where = earlier === undefined ? '' : ` from byte ${found.from} on`;
  const none = `No line${where} looks like an error.`;
  const text = found.text || none + (await endText(log, options, to));
  return { ...found, text, size: log.size, ...omitted };
}

/** Without errors, the end of the log is the most useful part. */
async function endText(log: Log, options: ReadOptions, to: number | undefined): Promise<string> {
  if (log.size === 0) return '';
  const maxBytes = Math.floor(options.maxBytes / 4);
  return ` The end:\n${(await readTail(log, { ...options, maxBytes }, to)).text}`;
}
