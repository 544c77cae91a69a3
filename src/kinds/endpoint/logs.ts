// Logs of workers. A process writes straight into its file (it must outlive this server); the server only notes when
// the file grew, so that lines have times, cuts it when it is too long, and adds lines of its own (`system`).
import {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../runtime/clock.ts';

export interface LogLine {
  ts: string;
  source: 'container' | 'system';
  line: string;
  /** Where the worker says which job a line belongs to. */
  jobId?: string;
  level?: string;
  /** Position after this line, to go on from; lines of the server have none. */
  offset?: number;
}

export interface LogQuery {
  source?: 'container' | 'system' | 'both';
  tail?: number;
  since?: number;
  jobId?: string;
  /** Only what comes after this position. */
  after?: number;
}

/** Above this a file is cut: the older part moves to one archive, which the next cut replaces. */
export const logBytesMax = 8 * 1024 * 1024;
const readBytesMax = 2 * 1024 * 1024;
export const tailMax = 5000;
const lineCharsMax = 8192;
/** No endpoint can have this id. */
const sparesFolder = '.spare';

export class WorkerLogs {
  private readonly folder: string;
  private readonly clock: Clock;
  private readonly sizes = new Map<string, number>();

  constructor(folder: string, clock: Clock) {
    this.folder = join(folder, 'logs');
    this.clock = clock;
  }

  /** The file a process writes to, open for appending. The caller closes it. */
  open(endpointId: string, workerId: string): number {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    return openSync(this.path(endpointId, workerId), 'a', 0o600);
  }

  /** The log of a process that is no worker yet. */
  openSpare(name: string): number {
    mkdirSync(join(this.folder, sparesFolder), { recursive: true, mode: 0o700 });
    return openSync(join(this.folder, sparesFolder, name), 'a', 0o600);
  }

  /** It became a worker: what it writes from now on is that worker's log. */
  nameSpare(name: string, endpointId: string, workerId: string): void {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    renameSync(join(this.folder, sparesFolder, name), this.path(endpointId, workerId));
  }

  forgetSpare(name: string): void {
    rmSync(join(this.folder, sparesFolder, name), { force: true });
  }

  /** What a killed server left behind. */
  forgetSpares(): void {
    rmSync(join(this.folder, sparesFolder), { recursive: true, force: true });
  }

  /** A line of the server about a worker. */
  note(endpointId: string, workerId: string, line: string): void {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    const path = `${this.path(endpointId, workerId)}.sys`;
    const text = `${this.clock.now()} ${line.replaceAll('\n', ' ')}\n`;
    appendFileSync(path, text, { mode: 0o600 });
  }

  /** Called about every second for live workers: notes growth, cuts what is too long. */
  tick(endpointId: string, workerId: string): void {
    const path = this.path(endpointId, workerId);
    const size = sizeOf(path);
    if (size === (this.sizes.get(path) ?? 0)) return;
    this.sizes.set(path, size);
    appendFileSync(`${path}.idx`, `${size} ${this.clock.now()}\n`, { mode: 0o600 });
    if (size <= logBytesMax) return;
    copyFileSync(path, `${path}.1`);
    truncateSync(path, 0);
    renameSync(`${path}.idx`, `${path}.idx.1`);
    this.sizes.set(path, 0);
  }

  read(endpointId: string, workerId: string, query: LogQuery = {}): LogLine[] {
    const path = this.path(endpointId, workerId);
    const source = query.source ?? 'both';
    const own = source === 'container' ? [] : systemLines(path);
    const theirs = source === 'system' ? [] : this.workerLines(path, query.after);
    const lines = [...own, ...theirs]
      .filter(({ ts, jobId }) => {
        if (query.jobId !== undefined && jobId !== query.jobId) return false;
        return query.since === undefined || Date.parse(ts) >= query.since;
      })
      .toSorted((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
    if (query.since !== undefined || query.after !== undefined) return lines.slice(-tailMax);
    const tail = query.tail ?? 100;
    return tail === 0 ? [] : lines.slice(-tail);
  }

  /** All that the worker gave to this job, as text. */
  printed(endpointId: string, workerId: string, jobId: string): Buffer {
    const path = this.path(endpointId, workerId);
    const mark = JSON.stringify(jobId);
    const lines = [`${path}.1`, path]
      .flatMap((file) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []))
      // Few of many lines are this job's: only those are worth parsing.
      .filter((line) => line.includes(mark))
      .map(attributed)
      .filter((one) => one.jobId === jobId);
    return Buffer.from(lines.map(({ line }) => `${line}\n`).join(''));
  }

  /** Where the file ends now: `after` of a follower. */
  end(endpointId: string, workerId: string): number {
    return sizeOf(this.path(endpointId, workerId));
  }

  forget(endpointId: string, workerId: string): void {
    const path = this.path(endpointId, workerId);
    this.sizes.delete(path);
    for (const end of ['', '.idx', '.sys', '.1', '.idx.1'])
      rmSync(`${path}${end}`, { force: true });
  }

  private workerLines(path: string, after: number | undefined): LogLine[] {
    const now = this.clock.now();
    const size = sizeOf(path);
    const lines: LogLine[] = [];
    // A shorter file than the follower knows was cut: what is there now is all new.
    const from = after === undefined || after > size ? 0 : after;
    if (after === undefined && size < readBytesMax / 2 && existsSync(`${path}.1`))
      lines.push(...linesOf(`${path}.1`, `${path}.idx.1`, 0, now));
    lines.push(...linesOf(path, `${path}.idx`, Math.max(from, size - readBytesMax), now));
    return lines;
  }

  private path(endpointId: string, workerId: string): string {
    return join(
      this.folder,
      endpointId,
      `${workerId.replaceAll(/[^\w.-]/g, '_').slice(0, 100)}.log`,
    );
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function systemLines(path: string): LogLine[] {
  if (!existsSync(`${path}.sys`)) return [];
  return readFileSync(`${path}.sys`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .slice(-tailMax)
    .map((line) => {
      const space = line.indexOf(' ');
      const ts = new Date(Number(line.slice(0, space))).toISOString();
      return { ts, source: 'system', line: line.slice(space + 1) };
    });
}

function linesOf(path: string, indexPath: string, from: number, now: number): LogLine[] {
  const size = sizeOf(path);
  const start = Math.max(from, size - readBytesMax);
  if (size <= start) return [];
  const bytes = Buffer.alloc(size - start);
  const fd = openSync(path, 'r');
  const length = readSync(fd, bytes, 0, bytes.length, start);
  closeSync(fd);
  const times = readIndex(indexPath);
  const lines: LogLine[] = [];
  let at = 0;
  while (at < length) {
    const newline = bytes.indexOf(10, at);
    const end = newline < 0 ? length : newline;
    const offset = start + Math.min(end + 1, length);
    const text = bytes.subarray(at, Math.min(end, at + lineCharsMax)).toString('utf8');
    const ts = new Date(times.find(([size]) => size >= offset)?.[1] ?? now).toISOString();
    if (text.trim() !== '') lines.push({ ts, source: 'container', ...attributed(text), offset });
    at = end + 1;
  }
  return lines;
}

function readIndex(path: string): [number, number][] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' ').map(Number) as [number, number]);
}

/** RunPod's workers and ours write JSON lines with the job they belong to; anything else is plain text. */
function attributed(text: string): { line: string; jobId?: string; level?: string } {
  const line = text.replace(/\r$/, '');
  if (!line.startsWith('{')) return { line };
  try {
    const value = JSON.parse(line) as { requestId?: unknown; message?: unknown; level?: unknown };
    if (typeof value.message !== 'string') return { line };
    return {
      line: value.message,
      ...(typeof value.requestId === 'string' ? { jobId: value.requestId } : {}),
      ...(typeof value.level === 'string' ? { level: value.level } : {}),
    };
  } catch {
    return { line };
  }
}
