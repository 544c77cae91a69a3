// Worker logs. A process writes directly into its file, because it must outlive this server. The server records when
// the file grew, so that lines have timestamps, truncates it above a limit, and adds `system` lines.
import { maxTail } from '../contracts/workers.ts';
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../runtime/clock.ts';
import { LogFile, sizeOf } from './log-file.ts';

export interface LogLine {
  ts: string;
  source: 'container' | 'system';
  line: string;
  /** The job of the line, if the worker reports it. */
  jobId?: string;
  level?: string;
  /** Position after this line, for continuing. Lines of the server have none. */
  offset?: number;
}

export interface LogQuery {
  source?: 'container' | 'system' | 'both';
  tail?: number;
  since?: number;
  jobId?: string;
  /** Only lines after this position. */
  after?: number;
}

const maxReadBytes = 2 * 1024 * 1024;
const maxLineChars = 8192;
/** Followers can still read the last lines of a worker that was stopped with its endpoint. */
const deletedGraceMs = 3000;
/** No endpoint can have this id. */
const prestartedFolder = '.spare';

export class WorkerLogs {
  private readonly folder: string;
  private readonly clock: Clock;
  private readonly files = new Map<string, LogFile>();

  constructor(folder: string, clock: Clock) {
    this.folder = join(folder, 'logs');
    this.clock = clock;
  }

  /** Opens the log file of a process for appending. The caller closes it. */
  open(endpointId: string, workerId: string): number {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    return openSync(this.path(endpointId, workerId), 'a', 0o600);
  }

  /** Opens the log of a process that is not a worker yet. */
  openPrestarted(name: string): number {
    mkdirSync(join(this.folder, prestartedFolder), { recursive: true, mode: 0o700 });
    return openSync(join(this.folder, prestartedFolder, name), 'a', 0o600);
  }

  /** The process became a worker, so its log becomes that worker's log. */
  adoptPrestarted(name: string, endpointId: string, workerId: string): void {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    renameSync(join(this.folder, prestartedFolder, name), this.path(endpointId, workerId));
  }

  forgetPrestarted(name: string): void {
    rmSync(join(this.folder, prestartedFolder, name), { force: true });
  }

  /** Removes logs that a killed server left behind. */
  forgetAllPrestarted(): void {
    rmSync(join(this.folder, prestartedFolder), { recursive: true, force: true });
  }

  /** Adds a line of the server about a worker. */
  note(endpointId: string, workerId: string, line: string): void {
    mkdirSync(join(this.folder, endpointId), { recursive: true, mode: 0o700 });
    const path = `${this.path(endpointId, workerId)}.sys`;
    const text = `${this.clock.now()} ${line.replaceAll('\n', ' ')}\n`;
    appendFileSync(path, text, { mode: 0o600 });
  }

  /** Called about every half second for running workers without a relay. */
  tick(endpointId: string, workerId: string): void {
    const path = this.path(endpointId, workerId);
    let file = this.files.get(path);
    if (!file) this.files.set(path, (file = new LogFile(path)));
    file.tick(this.clock.now());
    file.cut();
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
    if (query.since !== undefined || query.after !== undefined) return lines.slice(-maxTail);
    const tail = query.tail ?? 100;
    return tail === 0 ? [] : lines.slice(-tail);
  }

  /** Returns all lines that the worker attributed to this job, as text. */
  printed(endpointId: string, workerId: string, jobId: string): Buffer {
    const path = this.path(endpointId, workerId);
    const mark = JSON.stringify(jobId);
    const lines = [`${path}.1`, path]
      .flatMap((file) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []))
      // Only lines that mention the job are worth parsing.
      .filter((line) => line.includes(mark))
      .map(attributed)
      .filter((one) => one.jobId === jobId);
    return Buffer.from(lines.map(({ line }) => `${line}\n`).join(''));
  }

  /** Returns the current end of the file: `after` of a new follower. */
  end(endpointId: string, workerId: string): number {
    return sizeOf(this.path(endpointId, workerId));
  }

  forget(endpointId: string, workerId: string): void {
    const path = this.path(endpointId, workerId);
    this.files.delete(path);
    for (const end of ['', '.idx', '.sys', '.1', '.idx.1'])
      rmSync(`${path}${end}`, { force: true });
  }

  /** Removes logs of deleted endpoints. Returns true if some are still recent, because they may have followers. */
  forgetDeleted(endpointIds: ReadonlySet<string>): boolean {
    if (!existsSync(this.folder)) return false;
    let isLater = false;
    for (const name of readdirSync(this.folder)) {
      if (name === prestartedFolder || endpointIds.has(name)) continue;
      const path = join(this.folder, name);
      const files = readdirSync(path).map((file) => statSync(join(path, file)).mtimeMs);
      if (Math.max(0, ...files) > this.clock.now() - deletedGraceMs) isLater = true;
      else rmSync(path, { recursive: true, force: true });
    }
    return isLater;
  }

  private workerLines(path: string, after: number | undefined): LogLine[] {
    const now = this.clock.now();
    const size = sizeOf(path);
    const lines: LogLine[] = [];
    // A file shorter than the follower's position was truncated, so all of its content is new.
    const from = after === undefined || after > size ? 0 : after;
    if (after === undefined && size < maxReadBytes / 2 && existsSync(`${path}.1`))
      lines.push(...linesOf(`${path}.1`, `${path}.idx.1`, 0, now));
    lines.push(...linesOf(path, `${path}.idx`, Math.max(from, size - maxReadBytes), now));
    return lines;
  }

  path(endpointId: string, workerId: string): string {
    return join(
      this.folder,
      endpointId,
      `${workerId.replaceAll(/[^\w.-]/g, '_').slice(0, 100)}.log`,
    );
  }
}

function systemLines(path: string): LogLine[] {
  if (!existsSync(`${path}.sys`)) return [];
  return readFileSync(`${path}.sys`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .slice(-maxTail)
    .map((line) => {
      const space = line.indexOf(' ');
      const ts = new Date(Number(line.slice(0, space))).toISOString();
      return { ts, source: 'system', line: line.slice(space + 1) };
    });
}

function linesOf(path: string, indexPath: string, from: number, now: number): LogLine[] {
  const size = sizeOf(path);
  const start = Math.max(from, size - maxReadBytes);
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
    const text = bytes.subarray(at, Math.min(end, at + maxLineChars)).toString('utf8');
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

/** RunPod's workers and ours write JSON lines that name their job. Anything else is plain text. */
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
