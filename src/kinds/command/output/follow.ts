// Follows a log: yields new output until the job ends. A follower never slows a job down: if the job prints faster than
// the follower reads, it skips ahead and reports the skipped range, which keeps its cost low.
import { isUtf8 } from 'node:buffer';
import { isFinal, type Job } from '../../../jobs/job.ts';
import type { StreamItem } from '../../../operation.ts';
import { logsOf } from '../files.ts';
import type { CommandInput } from '../input.ts';
import { cleanText, partialEnd, partialEscape } from './text.ts';
import { FileChanges } from './changes.ts';
import { Log } from './log.ts';
import { readTail } from './read.ts';
import type { OutputDeps, OutputRequest } from './request.ts';

/** Poll interval. */
const pollMs = 100;
const pollMsIdle = 400;
const chunkBytes = 65_536;
/** For followers that read every byte, fewer and larger items cost less. Three bytes encode to four base64 characters. */
const chunkBytesLossless = 3 * 87_040;
/** A follower that is further behind skips to the end (unless lossless). */
const maxBacklogBytes = 262_144;
/** How much of a flood is shown, and how often. Nobody reads more. */
const floodBytes = 16_384;
const pollMsFlood = 500;
const firstBytes = 8192;

export async function* follow(
  job: Job,
  request: OutputRequest,
  deps: OutputDeps,
  signal: AbortSignal,
): AsyncGenerator<StreamItem> {
  const { jobs, clock, files } = deps;
  const cursors = new Cursors(request.cursor);
  const clean = !request.raw;
  const plain = !clean && request.lossless === true;
  // A person watches a terminal, so changes are read immediately instead of at the next poll.
  const isTerminal = plain && (job.input as Partial<CommandInput>).tty !== undefined;
  using terminal = isTerminal ? new FileChanges() : undefined;
  // One buffer for all items: each item is consumed before the next is requested.
  const window = plain ? Buffer.allocUnsafe(chunkBytesLossless) : undefined;
  let idle = 0;
  while (!signal.aborted) {
    // The state is read before the file: if the job has ended, the file is complete.
    const present = await jobs.get(job.id);
    const over = isFinal(present.status);
    terminal?.watch(files.logs(present).map(({ view }) => view.path));
    let moved = false;
    let flood = false;
    for (const { stream, view } of await logsOf(present, request.attempt, deps)) {
      if (request.stream && stream !== request.stream) continue;
      await using log = await Log.open(view);
      const from = cursors.get(stream) ?? request.from ?? (await firstCursor(log, request));
      let at = Math.min(Math.max(from, log.start), log.size);
      if (log.size - at > maxBacklogBytes && !request.lossless) {
        flood = true;
        const next = log.size - floodBytes;
        cursors.set(stream, next);
        yield { event: 'skipped', data: { stream, from: at, to: next }, id: cursors.id };
        at = next;
      }
      while (at < log.size && !signal.aborted) {
        const bytes = await log.bytes(at, at + (window?.length ?? chunkBytes), window);
        const more = at + bytes.length < log.size || (view.growing && !over);
        const part = plain || !more ? bytes : completePart(bytes, clean);
        if (part.length === 0) break;
        moved = true;
        cursors.set(stream, at + part.length);
        const place = { stream, from: at, next: at + part.length };
        if (plain) yield { event: 'output', data: place, bytes: part, id: cursors.id };
        else yield { event: 'output', data: { ...place, ...toData(part, clean) }, id: cursors.id };
        at += part.length;
        if (!request.lossless && !over) break;
      }
      cursors.set(stream, at);
    }
    if (request.once && !moved) return;
    if (over && !moved) {
      const { exitCode = null, signal: killedBy = null } = present.facts;
      const data = { id: job.id, status: present.status, exitCode, signal: killedBy };
      yield { event: 'end', data, id: cursors.id };
      return;
    }
    idle = moved ? 0 : idle + 1;
    const pause = flood ? pollMsFlood : idle > 5 ? pollMsIdle : pollMs;
    if (over) continue;
    if (terminal) await terminal.changed(pause, clock, signal);
    else await clock.sleep(pause, signal);
  }
}

/** `120` for one stream, `out:120,err:7` for two. A client that reconnects sends it to continue. */
class Cursors {
  private readonly at = new Map<string, number>();

  constructor(text: string | undefined) {
    for (const part of text?.split(',') ?? []) {
      const [stream, offset] = part.includes(':') ? part.split(':') : ['merged', part];
      if (Number.isSafeInteger(Number(offset))) this.at.set(stream!, Number(offset));
    }
  }

  get(stream: string): number | undefined {
    return this.at.get(stream);
  }

  set(stream: string, offset: number): void {
    this.at.set(stream, offset);
  }

  get id(): string {
    if (this.at.size === 1 && this.at.has('merged')) return String(this.at.get('merged'));
    return [...this.at].map(([stream, offset]) => `${stream}:${offset}`).join(',');
  }
}

async function firstCursor(log: Log, request: OutputRequest): Promise<number> {
  if (request.lossless) return log.start;
  const maxBytes = request.maxBytes ?? firstBytes;
  return (await readTail(log, { maxBytes, raw: true })).from;
}

/**
 * Cuts bytes that will be continued: after the last complete line if there is one, so that cleaning sees whole lines;
 * otherwise after the last complete character and escape code.
 */
function completePart(bytes: Buffer, clean: boolean): Buffer {
  const newline = clean ? bytes.lastIndexOf(10) : -1;
  if (newline >= 0) return bytes.subarray(0, newline + 1);
  const part = bytes.subarray(0, bytes.length - partialEnd(bytes));
  return clean ? part.subarray(0, part.length - partialEscape(part)) : part;
}

/** Raw bytes that are not valid UTF-8 are sent as base64, so that a client can write exactly what was printed. */
function toData(bytes: Buffer, clean: boolean): { text: string } | { base64: string } {
  if (!clean)
    return isUtf8(bytes) ? { text: bytes.toString() } : { base64: bytes.toString('base64') };
  return { text: bytes.toString().split('\n').map(cleanText).join('\n') };
}
