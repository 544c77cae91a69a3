// What a worker brings back: results (in the ledger, or as a file when they are large), chunks of a stream, and the
// translation of a worker's post into an outcome. Nothing a worker sent is ever dropped for its size or its shape.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Job } from '../../jobs/job.ts';
import type { Outcome } from '../../jobs/kind.ts';
import { resultLimits } from '../../runtime/input-limits.ts';
import { decodeJson, parseLenientJson } from '../../runtime/json.ts';

/** A larger result is kept as a file beside the database. */
export const inlineBytesMax = 1024 * 1024;
/** RunPod's own limit of one chunk; a larger one comes in pieces there, here it comes whole. */
const errorCharsMax = 64 * 1024;

export interface ResultFile {
  bytes: number;
  sha256: string;
  /** False: the worker's post was no JSON; the file holds it as it came. */
  json: boolean;
}

export interface Post {
  /** Raw body of job-done. */
  body: Buffer;
  isStream: boolean;
}

export type Report =
  | { type: 'progress'; output: unknown }
  | { type: 'end'; outcome: Outcome; stopWorker: boolean };

export class Results {
  private readonly folder: string;
  private readonly inlineBytesMax: number;

  /** Where several nodes share the ledger, every result is in it: a file would be on one of them only. */
  constructor(folder: string, wish: { shared?: boolean } = {}) {
    this.folder = join(folder, 'results');
    this.inlineBytesMax = wish.shared ? Infinity : inlineBytesMax;
  }

  /** What a post of a worker means. The file is written before the ledger says it is there. */
  read(attemptId: string, body: Buffer): Report {
    const text = body.toString('utf8');
    const value = parse(text);
    if (value === undefined || value === null || typeof value !== 'object' || Array.isArray(value))
      return { type: 'end', outcome: this.notJson(attemptId, body), stopWorker: false };
    const post = value as Record<string, unknown>;
    if (post.status === 'IN_PROGRESS') return { type: 'progress', output: post.output };
    const stopWorker = post.stopPod === true;
    const kept = 'output' in post ? this.keep(attemptId, post.output, body.length) : {};
    if (post.error !== undefined && post.error !== null) {
      const error = { code: 'handlerError', message: errorText(post.error) };
      return { type: 'end', outcome: { type: 'failed', error, retry: false, ...kept }, stopWorker };
    }
    return { type: 'end', outcome: { type: 'completed', ...kept }, stopWorker };
  }

  /** The result of a job, wherever it is; undefined when it has none. */
  of(job: Job): unknown {
    const file = job.facts.resultFile as ResultFile | undefined;
    if (!file) return job.result ?? undefined;
    const text = this.text(job.attemptId);
    if (text === undefined || !file.json) return text;
    // A file that was damaged is shown as it is.
    return (decodeJson(text) ?? { value: text }).value;
  }

  text(attemptId: string): string | undefined {
    const path = this.path(attemptId);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  forget(attemptIds: readonly string[]): void {
    for (const id of attemptIds) rmSync(this.path(id), { force: true });
  }

  /** A value that comes from elsewhere than a post (a remote). */
  keep(
    attemptId: string,
    output: unknown,
    bytes: number,
  ): { result?: unknown; facts?: Record<string, unknown> } {
    if (bytes <= this.inlineBytesMax) return { result: output };
    const text = JSON.stringify(output);
    if (text === undefined || text.length <= this.inlineBytesMax) return { result: output };
    return { facts: { resultFile: this.write(attemptId, Buffer.from(text), true) } };
  }

  private notJson(attemptId: string, body: Buffer): Outcome {
    const shown = body.subarray(0, 500).toString('utf8');
    return {
      type: 'failed',
      error: {
        code: 'resultNotJson',
        message: `The worker's result is not a JSON object: ${shown}`,
        hint: 'The whole of it is kept: read it with read_job_result.',
      },
      retry: false,
      ...(this.inlineBytesMax === Infinity
        ? { result: body.toString('utf8').replaceAll('\0', '\uFFFD') }
        : { facts: { resultFile: this.write(attemptId, body, false) } }),
    };
  }

  private write(attemptId: string, bytes: Buffer, json: boolean): ResultFile {
    const path = this.path(attemptId);
    mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 });
    writeFileSync(`${path}.new`, bytes, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    return { bytes: bytes.length, sha256, json };
  }

  private path(attemptId: string): string {
    const shard = createHash('sha256').update(attemptId).digest('hex').slice(0, 2);
    return join(this.folder, shard, attemptId.replaceAll(/[^\w.-]/g, '_'));
  }
}

function parse(text: string): unknown {
  try {
    return text.trim() === '' ? {} : parseLenientJson(text, resultLimits);
  } catch {
    // It exceeds a limit and could not be written again as JSON: kept as it came.
    return undefined;
  }
}

function errorText(error: unknown): string {
  const text = typeof error === 'string' ? error : JSON.stringify(error);
  return text.length <= errorCharsMax ? text : `${text.slice(0, errorCharsMax)}…`;
}
