// The stored crawl: one row per URL with its outcome, hosts with their queue lengths, and counters. Every change is one
// transaction that checks the runner's token, so a runner that lost its lease cannot change anything.
import { decodeJson, decodeJsonOr } from '../../../runtime/json.ts';
import type { Step, Store, Value } from '../../../store/store.ts';
import {
  crawlState,
  newCrawlState,
  type CrawlRow,
  type UrlOutcome,
  type HostRow,
  type UrlRow,
  type Waiting,
} from './rows.ts';

const waitingColumns = 'seq, key, url, host, depth, via, tries, hops, flags';
const urlFields = {
  seq: 'seq', key: 'key', url: 'url', depth: 'depth', via: 'via', outcome: 'fate', reason: 'reason', detail: 'detail',
  target: 'target', status: 'status', bytes: 'bytes', type: 'type', title: 'title', etag: 'etag', modified: 'modified',
  textHash: 'text_hash', change: 'change', fetchedAt: 'fetched_at', readyAt: 'ready_at', tries: 'tries', nth: 'nth',
  hops: 'hops', omitted: 'omitted', hiddenWords: 'hidden_words', pageHash: 'page_hash',
}; // prettier-ignore
const columnsOf = (table: string): string =>
  Object.entries(urlFields)
    .map(([field, column]) => `${table}${column} AS "${field}"`)
    .join(', ');
const urlColumns = columnsOf('');

export class WebStore {
  readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async open(jobId: string, owner: string, now: number): Promise<CrawlRow> {
    const state = newCrawlState();
    await this.store.commit([
      {
        sql: `INSERT INTO web_crawls (job_id, owner, seq_next, bytes, credits, active_ms, state, paused, created_at)
              VALUES (?, ?, 1, 0, 0, 0, ?, 0, ?) ON CONFLICT DO NOTHING`,
        params: [jobId, owner, JSON.stringify(state), now],
      },
    ]);
    return (await this.find(jobId))!;
  }

  async find(jobId: string): Promise<CrawlRow | undefined> {
    const [row] = await this.store.read(
      `SELECT crawl, job_id, owner, seq_next, bytes, credits, active_ms, state, paused
       FROM web_crawls WHERE job_id = ?`,
      [jobId],
    );
    if (!row) return undefined;
    return {
      crawl: row.crawl as number,
      jobId: row.job_id as string,
      owner: row.owner as string,
      seqNext: row.seq_next as number,
      bytes: row.bytes as number,
      credits: row.credits as number,
      activeMs: row.active_ms as number,
      state: crawlState(decodeJson(row.state)?.value),
      paused: row.paused === 1,
    };
  }

  /** The stored input of a job. */
  async inputOf(jobId: string): Promise<unknown> {
    const [row] = await this.store.read<{ input: string }>('SELECT input FROM jobs WHERE id = ?', [
      jobId,
    ]);
    return decodeJsonOr<unknown>(row?.input, {});
  }

  /** From now on, only transactions with this token apply. */
  async takeOver(crawl: number, token: string): Promise<void> {
    await this.store.commit([
      { sql: 'UPDATE web_crawls SET runner = ? WHERE crawl = ?', params: [token, crawl] },
    ]);
  }

  async setPaused(crawl: number, paused: boolean): Promise<void> {
    await this.store.commit([
      { sql: 'UPDATE web_crawls SET paused = ? WHERE crawl = ?', params: [paused ? 1 : 0, crawl] },
    ]);
  }

  async counts(crawl: number): Promise<Record<string, number>> {
    const rows = await this.store.read<{ name: string; n: number }>(
      'SELECT name, n FROM web_counts WHERE crawl = ? AND n <> 0',
      [crawl],
    );
    return Object.fromEntries(rows.map(({ name, n }) => [name, n]));
  }

  /** Hosts with queued URLs (of one depth, if given) that may be requested now, longest waiting first. */
  async readyHosts(crawl: number, now: number, limit: number, depth?: number): Promise<HostRow[]> {
    const has = (ready: string) =>
      `EXISTS (SELECT 1 FROM web_urls u WHERE u.crawl = h.crawl AND u.host = h.host
        AND u.fate = 'queued' AND u.ready_at ${ready} 0 AND u.depth = ?)`;
    return this.store.read<HostRow>(
      `SELECT host, queued, ready_at AS "readyAt", failures, rests FROM web_hosts h
       WHERE crawl = ? AND queued > 0 AND ready_at <= ?
       ${depth === undefined ? '' : `AND (${has('=')} OR ${has('>')})`} ORDER BY ready_at LIMIT ?`,
      [crawl, now, ...(depth === undefined ? [] : [depth, depth]), limit],
    );
  }

  /** When the next paused host may be requested again. */
  async nextHostAt(crawl: number, now: number): Promise<number | undefined> {
    const [row] = await this.store.read<{ at: number }>(
      `SELECT ready_at AS at FROM web_hosts
       WHERE crawl = ? AND queued > 0 AND ready_at > ? ORDER BY ready_at LIMIT 1`,
      [crawl, now],
    );
    return row?.at;
  }

  async host(crawl: number, host: string): Promise<HostRow | undefined> {
    const [row] = await this.store.read<HostRow>(
      `SELECT host, queued, ready_at AS "readyAt", failures, rests FROM web_hosts
       WHERE crawl = ? AND host = ?`,
      [crawl, host],
    );
    return row;
  }

  async next(crawl: number, host: string, now: number, limit: number): Promise<Waiting[]> {
    return this.store.read<Waiting>(
      `SELECT ${waitingColumns} FROM web_urls
       WHERE crawl = ? AND host = ? AND fate = 'queued' AND ready_at <= ?
       ORDER BY ready_at, depth, seq LIMIT ?`,
      [crawl, host, now, limit],
    );
  }

  /** Like `next`, for one depth: URLs that were never tried first, then retries that are due. */
  async nextAt(
    crawl: number,
    { host, depth }: { host: string; depth: number },
    now: number,
    limit: number,
  ): Promise<Waiting[]> {
    const select = `SELECT ${waitingColumns} FROM web_urls
       WHERE crawl = ? AND host = ? AND fate = 'queued' AND depth = ?`;
    const fresh = await this.store.read<Waiting>(
      `${select} AND ready_at = 0 ORDER BY seq LIMIT ?`,
      [crawl, host, depth, limit],
    );
    if (fresh.length === limit) return fresh;
    const again = await this.store.read<Waiting>(
      `${select} AND ready_at > 0 AND ready_at <= ? ORDER BY ready_at, seq LIMIT ?`,
      [crawl, host, depth, now, limit - fresh.length],
    );
    return [...fresh, ...again];
  }

  /** The least depth of all queued URLs, including those that wait for a retry or for their host. */
  async leastDepth(crawl: number): Promise<number | undefined> {
    const least = (ready: string) =>
      `(SELECT min(u.depth) FROM web_urls u
        WHERE u.crawl = h.crawl AND u.host = h.host AND u.fate = 'queued' AND u.ready_at ${ready} 0)`;
    const [row] = await this.store.read<{ fresh: number | null; again: number | null }>(
      `SELECT min(${least('=')}) AS fresh, min(${least('>')}) AS again
       FROM web_hosts h WHERE h.crawl = ? AND h.queued > 0`,
      [crawl],
    );
    const depths = [row?.fresh, row?.again].filter((depth) => typeof depth === 'number');
    return depths.length > 0 ? Math.min(...depths) : undefined;
  }

  /** When the next delayed URL of a host is due (of one depth, if given). */
  async nextUrlAt(crawl: number, host: string, depth?: number): Promise<number | undefined> {
    const [row] = await this.store.read<{ at: number }>(
      `SELECT ready_at AS at FROM web_urls WHERE crawl = ? AND host = ? AND fate = 'queued'
       ${depth === undefined ? '' : 'AND ready_at > 0 AND depth = ?'} ORDER BY ready_at LIMIT 1`,
      [crawl, host, ...(depth === undefined ? [] : [depth])],
    );
    return row?.at;
  }

  /** The existing rows of these keys. */
  async known(crawl: number, keys: readonly string[]): Promise<Map<string, UrlRow>> {
    const found = new Map<string, UrlRow>();
    for (const chunk of chunks(keys, 100)) {
      const rows = await this.store.read<UrlRow>(
        `SELECT ${urlColumns} FROM web_urls WHERE crawl = ? AND key IN (${marks(chunk.length)})`,
        [crawl, ...chunk],
      );
      for (const row of rows) found.set(row.key, row);
    }
    return found;
  }

  /** The start URLs, or their redirect targets. */
  async startUrls(crawl: number, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ url: string }>(
      `SELECT url FROM web_urls WHERE crawl = ? AND via = 'start' AND fate <> 'redirected'
       ORDER BY seq LIMIT ?`,
      [crawl, limit],
    );
    return rows.map(({ url }) => url);
  }

  async hasUntriedStart(crawl: number): Promise<boolean> {
    const rows = await this.store.read(
      `SELECT 1 FROM web_urls WHERE crawl = ? AND fate = 'queued' AND via = 'start' AND tries = 0 LIMIT 1`,
      [crawl],
    );
    return rows.length > 0;
  }

  /** The first page of this crawl with the same title and text. */
  async samePage(
    crawl: number,
    pageHash: string,
  ): Promise<{ seq: number; url: string } | undefined> {
    const [row] = await this.store.read<{ seq: number; url: string }>(
      `SELECT seq, url FROM web_urls WHERE crawl = ? AND page_hash = ?
       AND fate IN ('fetched', 'unchanged') ORDER BY seq LIMIT 1`,
      [crawl, pageHash],
    );
    return row;
  }

  /** Some URLs that only duplicates link to. Keys are hashes, so their order is a random sample. */
  async postponed(crawl: number, limit: number): Promise<UrlRow[]> {
    return this.store.read<UrlRow>(
      `SELECT ${urlColumns} FROM web_urls WHERE crawl = ? AND fate = 'skipped' AND reason = 'onDuplicate'
       ORDER BY depth, key LIMIT ?`,
      [crawl, limit],
    );
  }

  async children(crawl: number, parent: number, limit: number): Promise<{ url: string }[]> {
    return this.store.read<{ url: string }>(
      "SELECT url FROM web_urls WHERE crawl = ? AND parent = ? AND COALESCE(reason, '') <> 'nofollow' LIMIT ?",
      [crawl, parent, limit],
    );
  }

  /** Duplicates whose canonical link points to one of these URLs. */
  async aliasesOf(
    crawl: number,
    targets: readonly string[],
  ): Promise<{ seq: number; host: string }[]> {
    const found: { seq: number; host: string }[] = [];
    for (const chunk of chunks(targets, 100)) {
      const rows = await this.store.read<{ seq: number; host: string }>(
        `SELECT seq, host FROM web_urls WHERE crawl = ? AND fate = 'duplicate' AND reason = 'canonical'
         AND target IN (${marks(chunk.length)})`,
        [crawl, ...chunk],
      );
      found.push(...rows);
    }
    return found;
  }

  /** Rows that redirect to a URL and have none of these flags. */
  async redirectedTo(
    crawl: number,
    target: string,
    flags: number,
  ): Promise<{ seq: number; host: string }[]> {
    return this.store.read<{ seq: number; host: string }>(
      `SELECT seq, host FROM web_urls WHERE crawl = ? AND fate = 'redirected' AND reason IS NULL
       AND target = ? AND flags & ? = 0`,
      [crawl, target, flags],
    );
  }

  /** For redirect targets: the URL that was requested first. */
  async askedFor(crawl: number, seqs: readonly number[]): Promise<Map<number, string>> {
    const found = new Map<number, string>();
    for (const chunk of chunks(seqs, 100)) {
      const rows = await this.store.read<{ seq: number; url: string }>(
        `WITH RECURSIVE way (seq, before) AS (
           SELECT seq, parent FROM web_urls WHERE crawl = ? AND hops > 0 AND seq IN (${marks(chunk.length)})
           UNION
           SELECT way.seq, u.parent FROM way JOIN web_urls u ON u.crawl = ? AND u.seq = way.before WHERE u.hops > 0
         )
         SELECT way.seq, u.url FROM way JOIN web_urls u ON u.crawl = ? AND u.seq = way.before WHERE u.hops = 0`,
        [crawl, ...chunk, crawl, crawl],
      );
      for (const { seq, url } of rows) found.set(seq, url);
    }
    return found;
  }

  /** Lists pages in order of arrival, after a page number. */
  async listPages(
    crawl: number,
    options: { after: number; limit: number; outcomes: readonly UrlOutcome[]; change?: string },
  ): Promise<UrlRow[]> {
    const changed = options.change === undefined ? [] : [options.change];
    return this.store.read<UrlRow>(
      `SELECT ${urlColumns} FROM web_urls WHERE crawl = ? AND nth > ? AND fate IN (${marks(options.outcomes.length)})
       ${changed.length > 0 ? 'AND change = ?' : ''} ORDER BY nth LIMIT ?`,
      [crawl, options.after, ...options.outcomes, ...changed, options.limit],
    );
  }

  /** Lists rows in the order in which the crawl found them, after a `seq`. */
  async list(
    crawl: number,
    options: { after: number; limit: number; outcomes?: readonly UrlOutcome[]; change?: string },
  ): Promise<UrlRow[]> {
    const params: Value[] = [crawl, options.after];
    let where = '';
    if (options.outcomes && options.outcomes.length > 0) {
      where += ` AND fate IN (${marks(options.outcomes.length)})`;
      params.push(...options.outcomes);
    }
    if (options.change !== undefined) {
      where += ' AND change = ?';
      params.push(options.change);
    }
    return this.store.read<UrlRow>(
      `SELECT ${urlColumns} FROM web_urls WHERE crawl = ? AND seq > ?${where} ORDER BY seq LIMIT ?`,
      [...params, options.limit],
    );
  }

  async byKey(crawl: number, key: string): Promise<UrlRow | undefined> {
    return (await this.known(crawl, [key])).get(key);
  }

  /** Pages of an earlier crawl without a row in this one. */
  async unseen(earlier: number, crawl: number, after: number, limit: number): Promise<UrlRow[]> {
    return this.store.read<UrlRow>(
      `SELECT ${columnsOf('e.')} FROM web_urls e
       WHERE e.crawl = ? AND e.fate IN ('fetched', 'unchanged') AND e.seq > ?
       AND NOT EXISTS (SELECT 1 FROM web_urls n WHERE n.crawl = ? AND n.key = e.key)
       ORDER BY e.seq LIMIT ?`,
      [earlier, after, crawl, limit],
    );
  }

  /** Returns false, without any change, if another runner has taken over. */
  async commit(crawl: number, token: string, steps: readonly Step[]): Promise<boolean> {
    const fence: Step = {
      sql: 'UPDATE web_crawls SET runner = runner WHERE crawl = ? AND runner = ?',
      params: [crawl, token],
      expect: 1,
    };
    return (await this.store.commit([fence, ...steps.map(withoutNul)])).applied;
  }

  async forget(jobIds: readonly string[]): Promise<void> {
    for (const id of jobIds) {
      const row = await this.find(id);
      if (!row) continue;
      const tables = ['web_urls', 'web_hosts', 'web_counts', 'web_crawls'];
      await this.store.commit(
        tables.map((table) => ({
          sql: `DELETE FROM ${table} WHERE crawl = ?`,
          params: [row.crawl],
        })),
      );
    }
  }
}

/** Removes NUL characters from page text, because PostgreSQL cannot store them. */
function withoutNul(step: Step): Step {
  if (!('params' in step) || !step.params?.some(hasNul)) return step;
  return { ...step, params: step.params.map((one) => (hasNul(one) ? plain(one) : one)) };
}

const hasNul = (value: Value): value is string => typeof value === 'string' && value.includes('\0');
const plain = (text: string): string => text.replaceAll('\0', '');

export function* chunks<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}

const marks = (n: number): string => Array.from({ length: n }, () => '?').join(', ');
