// Index of earlier page readings, for `maxAgeMs`: which job read a URL with which options, and when. The text is only in
// the job result, so entries are deleted with their job.
import { createHash } from 'node:crypto';
import type { Store } from '../../../store/store.ts';
import type { ActionInput } from '../jobs/inputs.ts';
import { cleanUrl, parseUrl } from '../url.ts';

interface Reading {
  jobId: string;
  at: number;
}

export class ReadStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async remember(owner: string, key: string, reading: Reading): Promise<void> {
    await this.store.commit([
      {
        sql: `INSERT INTO web_reads (owner, key, job_id, at) VALUES (?, ?, ?, ?)
              ON CONFLICT (owner, key) DO UPDATE SET job_id = excluded.job_id, at = excluded.at`,
        params: [owner, key, reading.jobId, reading.at],
      },
    ]);
  }

  async find(owner: string, key: string, since: number): Promise<Reading | undefined> {
    const [row] = await this.store.read<{ jobId: string; at: number }>(
      'SELECT job_id AS "jobId", at FROM web_reads WHERE owner = ? AND key = ? AND at >= ?',
      [owner, key, since],
    );
    return row;
  }

  async forget(jobIds: readonly string[]): Promise<void> {
    await this.store.commit(
      jobIds.map((id) => ({ sql: 'DELETE FROM web_reads WHERE job_id = ?', params: [id] })),
    );
  }
}

/**
 * The cache key: the URL and every option that affects the text. Undefined for requests with headers, because their
 * response may be personal.
 */
export function readingKey(input: ActionInput<'markdown'>): string | undefined {
  const { maxAgeMs: _age, timeoutMs: _time, maxBytes: _bytes, offset: _offset, ...request } = input;
  const { url, headers, formats, reusable: _reusable, ...options } = request;
  if (headers && Object.keys(headers).length > 0) return undefined;
  const address = cleanUrl(parseUrl(url)).href;
  const pairs = Object.entries(options).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const content = JSON.stringify([address, [...new Set(formats)].toSorted(), pairs]);
  return createHash('sha256').update(content).digest('base64url');
}
