// Keeps the files of ended jobs in object storage (S3 API), so that output outlives its node. The transaction that starts
// an attempt records what must be archived. This loop uploads it after the end and retries until it succeeds.
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
  /** Includes the bucket: https://s3.eu-central-1.amazonaws.com/errand, http://minio:9000/errand */
  endpoint: string;
  region: string;
  prefix: string;
}

interface ArchiveOptions {
  settings: ArchiveSettings;
  accessKeyId: string;
  secretAccessKey: string;
  rows: NodeRows;
  node: string;
  egress: Egress;
  clock: Clock;
  log: Log;
  /** The folder of a job's files; undefined if its kind has none. */
  folderOf(job: Job): string | undefined;
  find(jobId: string): Promise<Job | undefined>;
}

const everyMs = 2000;
/** Upper bound of the retry backoff. */
const maxRetryMs = 60_000;
const batch = 20;
const maxTransferMs = 600_000;
const maxBytes = 5 * 1024 ** 3;

export class Archive implements Service {
  readonly name = 'archive';
  private readonly options: ArchiveOptions;
  private readonly client: S3mini;
  private readonly loop: Loop;
  private readonly restoring = new Map<string, Promise<boolean>>();
  /** Jobs whose upload failed, with the time of the next try. */
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
      throw new AppError(
        'unsupported',
        'Object storage requires the package s3mini, which is not installed.',
        {
          hint: 'Run `npm install s3mini` in the folder where Errand is installed, then start again.',
          cause: error,
        },
      );
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

  /** Downloads the files of an ended job. Concurrent readers share one download. */
  restore(job: Job, folder: string): Promise<boolean> {
    let running = this.restoring.get(job.id);
    if (!running) {
      running = this.download(job, folder).finally(() => this.restoring.delete(job.id));
      this.restoring.set(job.id, running);
    }
    return running;
  }

  /** Deletes the archived files of jobs that retention removed. */
  async forget(jobIds: readonly string[]): Promise<void> {
    const { rows } = this.options;
    for (const jobId of jobIds) {
      for (const file of (await rows.findArchive(jobId)) ?? [])
        await this.client.deleteObject(this.key(jobId, file));
    }
    await rows.deleteArchives(jobIds);
  }

  private async upload(): Promise<void> {
    const { rows, node, clock, log } = this.options;
    const now = clock.now();
    const pending = await rows.toArchive(node, batch + this.failed.size);
    for (const jobId of this.failed.keys()) if (!pending.includes(jobId)) this.failed.delete(jobId);
    for (const jobId of pending) {
      const failed = this.failed.get(jobId);
      if (failed && failed.nextAt > now) continue;
      try {
        await this.archiveJob(jobId);
        this.failed.delete(jobId);
      } catch (error) {
        // A job that cannot be archived must not block the others.
        const waitMs = Math.min((failed?.waitMs ?? everyMs / 2) * 2, maxRetryMs);
        this.failed.set(jobId, { waitMs, nextAt: clock.now() + waitMs });
        log.warn('failed to archive output; will retry', { jobId, retryInMs: waitMs, error });
      }
    }
  }

  private async archiveJob(jobId: string): Promise<void> {
    const { rows, node, find, folderOf, clock, log } = this.options;
    const job = await find(jobId);
    const folder = job && folderOf(job);
    const files = folder && existsSync(folder) ? listFiles(folder) : [];
    let bytes = 0;
    for (const file of files) {
      const path = join(folder!, file);
      const { size } = statSync(path);
      bytes += size;
      await this.uploadFile(jobId, file, path, size);
    }
    await rows.markArchived(jobId, { node, files, bytes, at: clock.now() });
    log.debug('archived', { jobId, bytes });
  }

  private async uploadFile(jobId: string, file: string, path: string, size: number): Promise<void> {
    const body = size === 0 ? '' : (Readable.toWeb(createReadStream(path)) as ReadableStream);
    const type = 'application/octet-stream';
    const key = this.key(jobId, file);
    const { ok, status } = await this.client.putObject(key, body, type, undefined, undefined, size);
    if (!ok) throw new Error(`the object storage responded with status ${status} for ${key}`);
  }

  /** Downloads into a temporary folder and renames it, so that a partial download is never used. */
  private async download(job: Job, folder: string): Promise<boolean> {
    const files = await this.options.rows.findArchive(job.id);
    if (!files) return false;
    const temporary = `${folder}.coming`;
    rmSync(temporary, { recursive: true, force: true });
    for (const file of files) {
      const response = await this.client.getObjectResponse(this.key(job.id, file));
      if (!response?.body) return false;
      const path = join(temporary, file);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      await pipeline(
        Readable.fromWeb(response.body as never),
        createWriteStream(path, { mode: 0o600 }),
      );
    }
    mkdirSync(temporary, { recursive: true, mode: 0o700 });
    if (!existsSync(folder)) renameSync(temporary, folder);
    return true;
  }

  private key(jobId: string, file: string): string {
    return `${this.options.settings.prefix}${jobId}/${file}`;
  }
}

function listFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** Adapts egress to the fetch API that the client library expects. */
function egressFetch(egress: Egress): typeof fetch {
  return async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const headers = Object.fromEntries(new Headers(init?.headers).entries());
    const body = init?.body as string | Buffer | AsyncIterable<Uint8Array> | null | undefined;
    const response = await egress.request({
      url,
      method: init?.method ?? 'GET',
      headers,
      trust: 'trusted',
      ...(body === null || body === undefined ? {} : { body: toEgressBody(body) }),
      ...(init?.signal ? { signal: init.signal } : {}),
      timeoutMs: maxTransferMs,
      maxBytes,
      decompress: false,
    });
    const headerList = new Headers();
    for (const [name, value] of Object.entries(response.headers))
      if (value !== undefined) headerList.set(name, String(value));
    const empty = response.status === 204 || response.status === 304 || init?.method === 'HEAD';
    if (empty) response.body.discard();
    const stream = empty ? null : (Readable.toWeb(Readable.from(response.body)) as ReadableStream);
    return new Response(stream, { status: response.status, headers: headerList });
  };
}

function toEgressBody(body: unknown): string | Buffer | AsyncIterable<Uint8Array> {
  if (typeof body === 'string') return body;
  if (body instanceof ArrayBuffer) return Buffer.from(body);
  if (ArrayBuffer.isView(body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return body as AsyncIterable<Uint8Array>;
}
