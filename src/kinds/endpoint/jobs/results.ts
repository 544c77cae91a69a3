// Job results (in the ledger, or as files when they are large), and the translation of a worker's post into an
// outcome. Nothing that a worker sent is dropped because of its size or shape.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Job } from '../../../jobs/job.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import { resultLimits } from '../../../runtime/input-limits.ts';
import { decodeJson, parseLenientJson } from '../../../runtime/json.ts';
import { progressStatus } from '../runner/protocol.ts';

/** A larger result is stored as a file next to the database. */
const maxInlineBytes = 1024 * 1024;
const maxErrorChars = 64 * 1024;

export interface ResultFile {
  bytes: number;
  sha256: string;
  /** False: the post was not JSON, and the file contains its raw bytes. */
  json: boolean;
}

type Report =
  | { type: 'progress'; output: unknown }
  | { type: 'end'; outcome: Outcome; stopWorker: boolean };

export class Results {
  private readonly folder: string;
  private readonly maxInlineBytes: number;

  /** If several nodes share the ledger, all results are stored in it: a file would exist on one node only. */
  constructor(folder: string, options: { shared?: boolean } = {}) {
    this.folder = join(folder, 'results');
    this.maxInlineBytes = options.shared ? Infinity : maxInlineBytes;
  }

  /** Interprets a worker's post. The file is written before the ledger refers to it. */
  read(attemptId: string, body: Buffer): Report {
    const text = body.toString('utf8');
    let isReplaced = false;
    const value = parse(text, () => (isReplaced = true));
    if (value === undefined || value === null || typeof value !== 'object' || Array.isArray(value))
      return { type: 'end', outcome: this.notJson(attemptId, body), stopWorker: false };
    const post = value as Record<string, unknown>;
    if (post.status === progressStatus) return { type: 'progress', output: post.output };
    const stopWorker = post.stopPod === true;
    const kept = 'output' in post ? this.keep(attemptId, post.output, body.length) : {};
    if (isReplaced || post.nonFinite === true) kept.facts = { ...kept.facts, nonFinite: true };
    if (post.error !== undefined && post.error !== null) {
      const error = { code: 'handlerError', message: errorText(post.error) };
      return { type: 'end', outcome: { type: 'failed', error, retry: false, ...kept }, stopWorker };
    }
    return { type: 'end', outcome: { type: 'completed', ...kept }, stopWorker };
  }

  /** Returns the result of a job from wherever it is stored; undefined if it has none. */
  of(job: Job): unknown {
    const file = job.facts.resultFile as ResultFile | undefined;
    if (!file) return job.result ?? undefined;
    const text = this.text(job.attemptId);
    if (text === undefined || !file.json) return text;
    // A damaged file is returned as text.
    return (decodeJson(text) ?? { value: text }).value;
  }

  text(attemptId: string): string | undefined {
    const path = this.path(attemptId);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  forget(attemptIds: readonly string[]): void {
    for (const id of attemptIds) rmSync(this.path(id), { force: true });
  }

  /** Stores a value that did not come from a post (a remote). */
  keep(
    attemptId: string,
    output: unknown,
    bytes: number,
  ): { result?: unknown; facts?: Record<string, unknown> } {
    if (bytes <= this.maxInlineBytes) return { result: output };
    const text = JSON.stringify(output);
    if (text === undefined || text.length <= this.maxInlineBytes) return { result: output };
    return { facts: { resultFile: this.write(attemptId, Buffer.from(text), true) } };
  }

  private notJson(attemptId: string, body: Buffer): Outcome {
    const shown = body.subarray(0, 500).toString('utf8');
    return {
      type: 'failed',
      error: {
        code: 'resultNotJson',
        message: `The worker's result is not a JSON object: ${shown}`,
        hint: 'The complete result was kept. Read it with read_job_result.',
      },
      retry: false,
      ...(this.maxInlineBytes === Infinity
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

function parse(text: string, replaced: () => void): unknown {
  try {
    return text.trim() === '' ? {} : parseLenientJson(text, resultLimits, replaced);
  } catch {
    // It exceeds a limit and cannot be serialized again as JSON, so it is stored unchanged.
    return undefined;
  }
}

function errorText(error: unknown): string {
  const text = typeof error === 'string' ? error : JSON.stringify(error);
  return text.length <= maxErrorChars ? text : `${text.slice(0, maxErrorChars)}…`;
}
