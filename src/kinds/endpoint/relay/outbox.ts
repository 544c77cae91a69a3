// Posts that a worker sent while the server was away: an append-only file that is flushed to disk before the worker
// gets its response. The relay delivers the records in order. If the relay is gone, the server reads the file. A
// crash may cause a second delivery; job, attempt and chunk number let the server detect it.
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

export type PostVerb = 'job-done' | 'job-stream';

interface PostHead {
  verb: PostVerb;
  jobId: string;
  /** The attempt that the worker received. Absent if the relay does not know it. */
  attemptId?: string | undefined;
  /** Number of a stream chunk, counted from 1. */
  n?: number | undefined;
}

export interface Post extends PostHead {
  body: Buffer;
}

interface Place {
  head: PostHead;
  start: number;
  bytes: number;
}

const newline = 10;

const outboxFile = (folder: string): string => join(folder, 'outbox');

export class Outbox {
  private readonly fd: number;
  private readonly waiting: Place[] = [];
  private size = 0;

  constructor(folder: string) {
    const path = outboxFile(folder);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    this.fd = openSync(path, 'a+', 0o600);
    ftruncateSync(this.fd, 0);
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  get bytes(): number {
    return this.size;
  }

  /** The post is on disk when this returns. Throws if the write fails; then nothing of it is kept. */
  append({ body, ...head }: Post): void {
    const line = Buffer.from(`${JSON.stringify({ ...head, bytes: body.length })}\n`);
    const before = this.size;
    try {
      write(this.fd, line);
      write(this.fd, body);
      write(this.fd, Buffer.from('\n'));
      fdatasyncSync(this.fd);
    } catch (error) {
      ftruncateSync(this.fd, before);
      throw error;
    }
    this.waiting.push({ head, start: before + line.length, bytes: body.length });
    this.size = before + line.length + body.length + 1;
  }

  /** The oldest record that was not delivered. */
  first(): Post | undefined {
    const place = this.waiting[0];
    if (!place) return undefined;
    const body = Buffer.alloc(place.bytes);
    for (let at = 0; at < body.length;)
      at += readSync(this.fd, body, at, body.length - at, place.start + at);
    return { ...place.head, body };
  }

  /** Removes the oldest record after its delivery. */
  drop(): void {
    this.waiting.shift();
    if (this.waiting.length > 0) return;
    ftruncateSync(this.fd, 0);
    this.size = 0;
  }

  close(): void {
    closeSync(this.fd);
  }
}

/** Reads the records of an outbox whose relay is gone. A truncated record was never acknowledged to the worker. */
export function readOutbox(folder: string): Post[] {
  const path = outboxFile(folder);
  if (!existsSync(path)) return [];
  const all = readFileSync(path);
  const posts: Post[] = [];
  for (let at = 0; ;) {
    const end = all.indexOf(newline, at);
    const head = end < 0 ? undefined : readNextJob(all.subarray(at, end));
    if (!head || end + 1 + head.bytes >= all.length) return posts;
    const { bytes, ...rest } = head;
    posts.push({ ...rest, body: all.subarray(end + 1, end + 1 + bytes) });
    at = end + 1 + bytes + 1;
  }
}

function readNextJob(line: Buffer): (PostHead & { bytes: number }) | undefined {
  try {
    const value = JSON.parse(line.toString('utf8')) as PostHead & { bytes: number };
    return typeof value.jobId === 'string' && Number.isInteger(value.bytes) ? value : undefined;
  } catch {
    return undefined;
  }
}

function write(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at, bytes.length - at);
}
