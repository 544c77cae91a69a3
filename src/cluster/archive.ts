// Files of ended jobs in object storage (S3 API), so that output outlives its node. What must be kept is written down in
// the transaction that starts an attempt; this loop uploads it after the end, again and again until it is there.
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { S3mini } from 's3mini';
import { AppError } from '../errors.ts';
import type { Job } from '../jobs/job.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Egress } from '../runtime/egress/index.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { NodeRows } from './store.ts';

export interface ArchiveSettings {
  /** With the bucket: https://s3.eu-central-1.amazonaws.com/errand, http://minio:9000/errand */
  endpoint: string;
  region: string;
  prefix: string;
}

export interface ArchiveOptions {
  settings: ArchiveSettings;
  accessKeyId: string;
  secretAccessKey: string;
  rows: NodeRows;
  node: string;
  egress: Egress;
  clock: Clock;
  log: Log;
  /** Where a kind keeps the files of a job; undefined when it has none. */
  folderOf(job: Job): string | undefined;
  find(jobId: string): Promise<Job | undefined>;
}

const everyMs = 2000;
/** A job that cannot be kept is tried again after ever longer times, up to this. */
const retryMsMax = 60_000;
const batch = 20;
const transferMsMax = 600_000;
const bytesMax = 5 * 1024 ** 3;

export class Archive implements Service {
  readonly name = 'archive';
  private readonly options: ArchiveOptions;
  private readonly client: S3mini;
  private readonly loop: Loop;
  private readonly restoring = new Map<string, Promise<boolean>>();
  /** Jobs whose files could not be kept, and when they are tried again. */
  private readonly failed = new Map<string, { waitMs: number; nextAt: number }>();

  private constructor(options: ArchiveOptions, client: S3mini) {
    this.options = options;
    this.client = client;
    const { clock, log } = options;
    this.loop = new Loop({ name: 'archive', everyMs, clock, log, run: () => this.upload() });
  }

  static async create(options: ArchiveOptions): Promise<Archive> {
    const { settings, accessKeyId, secretAccessKey, egress } = options;
    let S3: typeof S3mini;
    try {
      S3 = (await import('s3mini')).S3mini;
    } catch (error) {
      throw new AppError('unsupported', 'Object storage needs the package s3mini.', {
        hint: 'Run `npm install s3mini` beside Errand, then start again.',
        cause: error,
      });
    }
    const { endpoint, region } = settings;
    const fetch = egressFetch(egress);
    return new Archive(options, new S3({ accessKeyId, secretAccessKey, endpoint, region, fetch }));
  }

  async start(): Promise<void> {
    await this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  wake(): void {
    this.loop.wake();
  }

  /** Brings the files of an ended job here. Two readers at once share one download. */
  restore(job: Job, folder: string): Promise<boolean> {
    let running = this.restoring.get(job.id);
    if (!running) {
      running = this.download(job, folder).finally(() => this.restoring.delete(job.id));
      this.restoring.set(job.id, running);
    }
    return running;
  }

  /** Of jobs that retention forgot. */
  async forget(jobIds: readonly string[]): Promise<void> {
    const { rows } = this.options;
    for (const jobId of jobIds) {
      for (const file of (await rows.archiveOf(jobId)) ?? [])
        await this.client.deleteObject(this.key(jobId, file));
    }
    await rows.dropArchives(jobIds);
  }

  private async upload(): Promise<void> {
    const { rows, node, clock, log } = this.options;
    const now = clock.now();
    const open = await rows.toArchive(node, batch + this.failed.size);
    for (const jobId of this.failed.keys()) if (!open.includes(jobId)) this.failed.delete(jobId);
    for (const jobId of open) {
      const failed = this.failed.get(jobId);
      if (failed && failed.nextAt > now) continue;
      try {
        await this.keep(jobId);
        this.failed.delete(jobId);
      } catch (error) {
        // One that cannot be kept must not stand before the others.
        const waitMs = Math.min((failed?.waitMs ?? everyMs / 2) * 2, retryMsMax);
        this.failed.set(jobId, { waitMs, nextAt: clock.now() + waitMs });
        log.warn('output is not in object storage yet', { jobId, retryInMs: waitMs, error });
      }
    }
  }

  private async keep(jobId: string): Promise<void> {
    const { rows, node, find, folderOf, clock, log } = this.options;
    const job = await find(jobId);
    const folder = job && folderOf(job);
    const files = folder && existsSync(folder) ? filesIn(folder) : [];
    let bytes = 0;
    for (const file of files) {
      const path = join(folder!, file);
      const { size } = statSync(path);
      bytes += size;
      await this.put(jobId, file, path, size);
    }
    await rows.archived(jobId, { node, files, bytes, at: clock.now() });
    log.debug('archived', { jobId, bytes });
  }

  private async put(jobId: string, file: string, path: string, size: number): Promise<void> {
    const body = size === 0 ? '' : (Readable.toWeb(createReadStream(path)) as ReadableStream);
    const type = 'application/octet-stream';
    const key = this.key(jobId, file);
    const { ok, status } = await this.client.putObject(key, body, type, undefined, undefined, size);
    if (!ok) throw new Error(`the object storage answered ${status} for ${key}`);
  }

  /** Into a folder beside its place, then renamed: half a download is never taken for a whole one. */
  private async download(job: Job, folder: string): Promise<boolean> {
    const files = await this.options.rows.archiveOf(job.id);
    if (!files) return false;
    const half = `${folder}.coming`;
    rmSync(half, { recursive: true, force: true });
    for (const file of files) {
      const response = await this.client.getObjectResponse(this.key(job.id, file));
      if (!response?.body) return false;
      const path = join(half, file);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      await pipeline(
        Readable.fromWeb(response.body as never),
        createWriteStream(path, { mode: 0o600 }),
      );
    }
    mkdirSync(half, { recursive: true, mode: 0o700 });
    if (!existsSync(folder)) renameSync(half, folder);
    return true;
  }

  private key(jobId: string, file: string): string {
    return `${this.options.settings.prefix}${jobId}/${file}`;
  }
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** The client library speaks fetch; the network is reached through egress only. */
function egressFetch(egress: Egress): typeof fetch {
  return async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const headers = Object.fromEntries(new Headers(init?.headers).entries());
    const body = init?.body as string | Buffer | AsyncIterable<Uint8Array> | null | undefined;
    const answer = await egress.request({
      url,
      method: init?.method ?? 'GET',
      headers,
      trust: 'trusted',
      ...(body === null || body === undefined ? {} : { body: asBody(body) }),
      ...(init?.signal ? { signal: init.signal } : {}),
      timeoutMs: transferMsMax,
      bytesMax,
      decompress: false,
    });
    const plain = new Headers();
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined) plain.set(name, String(value));
    const empty = answer.status === 204 || answer.status === 304 || init?.method === 'HEAD';
    if (empty) answer.body.discard();
    const stream = empty ? null : (Readable.toWeb(Readable.from(answer.body)) as ReadableStream);
    return new Response(stream, { status: answer.status, headers: plain });
  };
}

function asBody(body: unknown): string | Buffer | AsyncIterable<Uint8Array> {
  if (typeof body === 'string') return body;
  if (body instanceof ArrayBuffer) return Buffer.from(body);
  if (ArrayBuffer.isView(body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return body as AsyncIterable<Uint8Array>;
}
