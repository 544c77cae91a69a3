// Earlier readings of single pages: which job of an owner read an address in which way, and when. Only the job's result
// holds the text, so what is forgotten with the job is forgotten here too.
import { createHash } from 'node:crypto';
import type { Store } from '../../../store/store.ts';
import type { ActionInput } from '../actions/inputs.ts';
import { cleanUrl, parseUrl } from '../crawl/url.ts';

export interface Reading {
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
 * The same address read in the same way; every option that changes the text is part of it. Undefined: not to be kept,
 * because the request carried headers of its own and the answer may be one person's.
 */
export function readingKey(input: ActionInput<'markdown'>): string | undefined {
  const { maxAgeMs: _age, timeoutMs: _time, maxBytes: _bytes, offset: _offset, ...wished } = input;
  const { url, headers, formats, ...how } = wished;
  if (headers && Object.keys(headers).length > 0) return undefined;
  const address = cleanUrl(parseUrl(url)).href;
  const wish = Object.entries(how).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const said = JSON.stringify([address, [...new Set(formats)].toSorted(), wish]);
  return createHash('sha256').update(said).digest('base64url');
}
