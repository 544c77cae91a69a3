// SQL statements for crawl transactions: changes to URLs, counters and hosts.
import type { Step } from '../../../store/store.ts';
import type { CrawlRow, UrlOutcome, HostRow, NewUrl, UrlChange } from './rows.ts';

export function insertUrl(crawl: number, url: NewUrl): Step {
  return {
    sql: `INSERT INTO web_urls (crawl, seq, key, url, host, depth, parent, via, fate, reason, ready_at, tries, hops, flags)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, 0)`,
    params: [
      crawl, url.seq, url.key, url.url, url.host, url.depth, url.parent, url.via, url.outcome,
      url.reason ?? null, url.hops ?? 0,
    ], // prettier-ignore
  };
}

/** Only a queued row can get an outcome. A second result for the same row is a conflict. */
export function updateUrl(crawl: number, change: UrlChange): Step {
  return {
    sql: `UPDATE web_urls SET fate = ?, reason = ?, detail = ?, ready_at = ?, tries = ?, target = ?, status = ?,
            bytes = ?, type = ?, title = ?, etag = ?, modified = ?, text_hash = ?, change = ?, fetched_at = ?, nth = ?,
            omitted = ?, hidden_words = ?, page_hash = ?
          WHERE crawl = ? AND seq = ? AND fate = 'queued'`,
    params: [
      change.outcome, change.reason ?? null, change.detail ?? null, change.readyAt ?? 0, change.tries ?? 0,
      change.target ?? null, change.status ?? null, change.bytes ?? null, change.type ?? null,
      change.title ?? null, change.etag ?? null, change.modified ?? null, change.textHash ?? null,
      change.change ?? null, change.fetchedAt ?? null, change.nth ?? null,
      change.omitted ?? null, change.hiddenWords ?? null,
      change.pageHash ?? null, crawl, change.seq,
    ], // prettier-ignore
    expect: 1,
  };
}

export function addCount(crawl: number, name: string, delta: number): Step {
  return {
    sql: `INSERT INTO web_counts (crawl, name, n) VALUES (?, ?, ?)
          ON CONFLICT (crawl, name) DO UPDATE SET n = web_counts.n + excluded.n`,
    params: [crawl, name, delta],
  };
}

export function addQueued(crawl: number, host: string, delta: number): Step {
  return {
    sql: `INSERT INTO web_hosts (crawl, host, queued, ready_at, failures, rests) VALUES (?, ?, ?, 0, 0, 0)
          ON CONFLICT (crawl, host) DO UPDATE SET queued = web_hosts.queued + excluded.queued`,
    params: [crawl, host, delta],
  };
}

export function setHost(crawl: number, host: Omit<HostRow, 'queued'>): Step {
  return {
    sql: 'UPDATE web_hosts SET ready_at = ?, failures = ?, rests = ? WHERE crawl = ? AND host = ?',
    params: [host.readyAt, host.failures, host.rests, crawl, host.host],
  };
}

export function saveCrawl(
  crawl: number,
  row: Pick<CrawlRow, 'seqNext' | 'bytes' | 'credits' | 'activeMs' | 'state'>,
): Step {
  return {
    sql: `UPDATE web_crawls SET seq_next = ?, bytes = ?, credits = ?, active_ms = ?, state = ? WHERE crawl = ?`,
    params: [
      row.seqNext,
      row.bytes,
      row.credits,
      Math.round(row.activeMs),
      JSON.stringify(row.state),
      crawl,
    ],
  };
}

/** Queues a row again: a failed page for a retry, or a duplicate whose canonical page failed. */
export function requeueUrl(crawl: number, seq: number, from: UrlOutcome, flags: number): Step {
  return {
    sql: `UPDATE web_urls SET fate = 'queued', reason = NULL, target = NULL, ready_at = 0, tries = 0,
            flags = flags | ?
          WHERE crawl = ? AND seq = ? AND fate = ?`,
    params: [flags, crawl, seq, from],
    expect: 1,
  };
}

/** Queues a skipped row that was found again within the scope. */
export function reopenUrl(crawl: number, seq: number, url: Omit<NewUrl, 'seq'>): Step {
  return {
    sql: `UPDATE web_urls SET fate = 'queued', reason = NULL, depth = ?, parent = ?, via = ?, hops = ?
          WHERE crawl = ? AND seq = ? AND fate = 'skipped'`,
    params: [url.depth, url.parent, url.via, url.hops ?? 0, crawl, seq],
    expect: 1,
  };
}
