// Which of the addresses that were found become rows, and which of those that did not belong to the crawl do now.
import type { Batch } from './batch.ts';
import type { Candidate } from './discovery.ts';
import type { CrawlRow, UrlRow } from './rows.ts';
import { insertUrl, reopenUrl } from './store.ts';

export interface AdmissionNeeds {
  crawl: CrawlRow;
  queuedMax: number;
  /** Kept counts, as committed. */
  counts(): Record<string, number>;
}

/** Rows that only say «not part of this crawl» stop being written here; their number is still counted. */
const skippedRowsMax = 20_000;
/** Why an address did not belong to the crawl where it was found; it may from another place. */
const placeReasons = new Set(
  'external outsidePath excluded notIncluded tooDeep onDuplicate'.split(' '),
);

export class Admission {
  private readonly needs: AdmissionNeeds;

  constructor(needs: AdmissionNeeds) {
    this.needs = needs;
  }

  /** A new address, or one that did not belong to the crawl from where it was found before. */
  admit(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
    const there = known.get(candidate.key);
    if (!there) return this.insert(batch, candidate);
    const { fate, reason = '', seq } = there;
    if (candidate.fate !== 'queued' || fate !== 'skipped' || !placeReasons.has(reason)) return;
    if (batch.fresh.has(candidate.key)) return;
    batch.fresh.set(candidate.key, candidate);
    batch.steps.push(reopenUrl(this.needs.crawl.crawl, seq, candidate));
    batch.wait(candidate.host, 1);
    batch.count('skipped', -1);
    batch.count(`skipped:${reason}`, -1);
  }

  /** Found on a duplicate only, so far. */
  putOff(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
    if (candidate.fate !== 'queued' || known.has(candidate.key)) return;
    this.insert(batch, { ...candidate, fate: 'skipped', reason: 'onDuplicate' });
  }

  insert(batch: Batch, candidate: Candidate): void {
    if (batch.fresh.has(candidate.key)) return;
    batch.fresh.set(candidate.key, candidate);
    const { crawl, queuedMax, counts } = this.needs;
    const reason = candidate.reason;
    if (candidate.fate === 'queued' && crawl.seqNext > queuedMax) {
      batch.count('unlisted', 1);
      return;
    }
    if (candidate.fate === 'queued') batch.wait(candidate.host, 1);
    else {
      if ((counts().skipped ?? 0) + (batch.counts.get('skipped') ?? 0) >= skippedRowsMax) {
        batch.count('unlisted', 1);
        return;
      }
      batch.count(candidate.fate, 1);
      batch.count(`${candidate.fate}:${reason}`, 1);
    }
    batch.steps.push(insertUrl(crawl.crawl, { ...candidate, seq: crawl.seqNext++ }));
  }
}
