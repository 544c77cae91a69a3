// Decides which discovered URLs become rows, and reopens skipped URLs that are found again inside the crawl's scope.
import type { Batch } from '../write/batch.ts';
import type { Candidate } from './discovery.ts';
import type { CrawlRow, UrlRow } from '../../store/rows.ts';
import { insertUrl, reopenUrl } from '../../store/crawl-steps.ts';

interface UrlInserterDeps {
  crawl: CrawlRow;
  maxQueued: number;
  /** The committed counters. */
  counts(): Record<string, number>;
}

/** Skipped URLs beyond this number are only counted, without a row. */
const maxSkippedRows = 20_000;
/** Skip reasons that depend on the page with the link. The same URL may be in scope when another page links to it. */
const placeReasons = new Set(
  'external outsidePath excluded notIncluded tooDeep onDuplicate nofollow'.split(' '),
);

export class UrlInserter {
  private readonly deps: UrlInserterDeps;

  constructor(deps: UrlInserterDeps) {
    this.deps = deps;
  }

  /** Queues a new URL, or one that was skipped because of the page it was found on. */
  insertOrReopen(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
    const existing = known.get(candidate.key);
    if (!existing) return this.insert(batch, candidate);
    const { outcome, reason = '', seq } = existing;
    if (candidate.outcome !== 'queued' || outcome !== 'skipped' || !placeReasons.has(reason))
      return;
    if (batch.fresh.has(candidate.key)) return;
    batch.fresh.set(candidate.key, candidate);
    batch.steps.push(reopenUrl(this.deps.crawl.crawl, seq, candidate));
    batch.wait(candidate.host, 1);
    batch.count('skipped', -1);
    batch.count(`skipped:${reason}`, -1);
  }

  /** Records a URL that only duplicates link to so far. It may be queued later. */
  postpone(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
    if (candidate.outcome !== 'queued' || known.has(candidate.key)) return;
    this.insert(batch, { ...candidate, outcome: 'skipped', reason: 'onDuplicate' });
  }

  /** Records a URL that the page marks as nofollow. Another page may still queue it. */
  skipNofollow(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
    if (known.has(candidate.key)) return;
    const { reason = 'nofollow' } = candidate;
    this.insert(batch, { ...candidate, outcome: 'skipped', reason });
  }

  insert(batch: Batch, candidate: Candidate): void {
    if (batch.fresh.has(candidate.key)) return;
    batch.fresh.set(candidate.key, candidate);
    const { crawl, maxQueued, counts } = this.deps;
    const reason = candidate.reason;
    if (candidate.outcome === 'queued' && crawl.seqNext > maxQueued) {
      batch.count('unlisted', 1);
      return;
    }
    if (candidate.outcome === 'queued') batch.wait(candidate.host, 1);
    else {
      if ((counts().skipped ?? 0) + (batch.counts.get('skipped') ?? 0) >= maxSkippedRows) {
        batch.count('unlisted', 1);
        return;
      }
      batch.count(candidate.outcome, 1);
      batch.count(`${candidate.outcome}:${reason}`, 1);
    }
    batch.steps.push(insertUrl(crawl.crawl, { ...candidate, seq: crawl.seqNext++ }));
  }
}
