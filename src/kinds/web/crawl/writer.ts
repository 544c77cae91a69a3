// Results become rows: what is a duplicate, what is new, what waits again. All results that came in meanwhile are one
// command, so a crawl's counts, rows and bodies always agree, whenever it is killed.
import type { Step } from '../../../store/store.ts';
import { copyPage, insertPage, type PageStore } from '../pages/store.ts';
import { pageFates, type CrawlRow, type UrlChange, type UrlRow } from './rows.ts';
import {
  addCount,
  addQueued,
  insertUrl,
  reopenUrl,
  requeueUrl,
  saveCrawl,
  setHost,
  updateUrl,
} from './store.ts';
import type { WebStore } from '../store.ts';
import type { Told } from '../webhooks.ts';
import { hourOf, spendStep } from '../usage/store.ts';
import { diffLines } from './diff.ts';
import type { Candidate, Discovery, Origin } from './discovery.ts';
import type { HostHealth } from './health.ts';
import type { Result } from './result.ts';
import { folderOf, type Scope } from './scope.ts';

export interface WriterNeeds {
  store: WebStore;
  pages: PageStore;
  crawl: CrawlRow;
  token: string;
  discovery: Discovery;
  scope: Scope;
  health: HostHealth;
  /** Earlier crawl to compare with. */
  earlier: number | undefined;
  followsLinks: boolean;
  queuedMax: number;
  now(): number;
  /** Names under which a page counts beyond its fate (path budgets). */
  budgets(url: string): string[];
  /** Messages about what became of pages, of the same command. */
  told(pages: readonly Told[]): Step[];
}

/** Rows that only say «not part of this crawl» stop being written here; their number is still counted. */
const skippedRowsMax = 20_000;
const canonicalFlag = 1;
/** Why an address did not belong to the crawl where it was found; it may from another place. */
const placeReasons = new Set(['external', 'outsidePath', 'excluded', 'notIncluded', 'tooDeep']);

/** What one command will do, gathered while results are decided. */
class Batch {
  readonly steps: Step[] = [];
  readonly counts = new Map<string, number>();
  readonly queued = new Map<string, number>();
  readonly fresh = new Map<string, Candidate>();
  readonly texts = new Map<string, string>();
  /** Pages that step back in this command, by the address they step back for. */
  readonly aliases = new Map<string, { seq: number; host: string }[]>();
  readonly spent = { calls: 0, credits: 0, pages: 0, bytes: 0, browserMs: 0 };

  count(name: string, delta: number): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + delta);
  }

  wait(host: string, delta: number): void {
    this.queued.set(host, (this.queued.get(host) ?? 0) + delta);
    this.count('queued', delta);
  }
}

export class Writer {
  private readonly needs: WriterNeeds;
  /** A command that failed is tried again; what was found in its results must then be found again. */
  private readonly placed = new WeakMap<Result, Candidate[]>();
  /** Kept counts, as committed. */
  counts: Record<string, number> = {};

  constructor(needs: WriterNeeds) {
    this.needs = needs;
  }

  /** Starts, or files of a sitemap: addresses without a page they were found on. */
  async add(links: readonly string[], origin: Origin): Promise<void> {
    const candidates = this.needs.discovery.candidates(links, origin);
    const batch = new Batch();
    // The starts are written once in the life of a crawl.
    if (origin.via === 'start') batch.spent.calls = 1;
    const known = await this.known(candidates.map(({ key }) => key));
    for (const candidate of candidates)
      if (!known.has(candidate.key)) this.insert(batch, candidate);
    await this.commit(batch);
  }

  async write(results: readonly Result[]): Promise<void> {
    const batch = new Batch();
    const links = results.map((result) => this.linksOf(result));
    const targets = results.map((result) => this.targetOf(result));
    const keys = [...links.flat(), ...targets.flatMap((target) => target ?? [])].map(
      ({ key }) => key,
    );
    const known = await this.known(keys);
    const ended: string[] = [];
    const told: Told[] = [];
    let { pages } = this;
    for (const [i, result] of results.entries()) {
      const decided = await this.decide(result, targets[i], known, batch);
      const isPage = pageFates.has(decided.fate);
      const change = isPage ? { ...decided, nth: ++pages } : decided;
      this.apply(batch, result, change);
      told.push({ result, change });
      // What the results after it are decided on.
      if (change.fate !== 'queued') known.set(result.row.key, { ...result.row, ...change });
      // Equal pages have equal links; following them again is how endless sites begin.
      if (isPage || change.reason === 'canonical')
        for (const candidate of links[i]!) this.admit(batch, candidate, known);
      if (!isPage && change.fate !== 'queued') ended.push(result.row.url);
    }
    await this.releaseAliases(batch, ended);
    batch.steps.push(...this.needs.told(told));
    await this.commit(batch);
  }

  /** Puts the failed pages of an earlier attempt back into the frontier. */
  async requeueFailed(): Promise<void> {
    const fates = ['errored', 'disallowed'] as const;
    for (let after = 0; ;) {
      const { store, crawl } = this.needs;
      const rows = await store.list(crawl.crawl, { after, limit: 200, fates });
      if (rows.length === 0) return;
      await this.requeue(
        rows.filter(({ fate, reason }) => fate === 'errored' || reason === 'robotsUnreachable'),
      );
      after = rows.at(-1)!.seq;
    }
  }

  private async requeue(rows: readonly UrlRow[]): Promise<void> {
    const batch = new Batch();
    for (const row of rows) {
      batch.steps.push(requeueUrl(this.needs.crawl.crawl, row.seq, row.fate, 0));
      batch.wait(new URL(row.url).host, 1);
      batch.count(row.fate, -1);
      if (row.reason) batch.count(`${row.fate}:${row.reason}`, -1);
      if (row.change) batch.count(`change:${row.change}`, -1);
    }
    await this.commit(batch);
  }

  /** Pages of the earlier crawl that nothing led to this time: whether they are gone, only the site can say. */
  async recall(rows: readonly UrlRow[]): Promise<void> {
    const { discovery } = this.needs;
    const places = rows.flatMap(
      ({ url, depth }) => discovery.place(url, { parent: null, depth, via: 'earlier' }) ?? [],
    );
    const candidates = places.filter(({ fate }) => fate === 'queued');
    const known = await this.known(candidates.map(({ key }) => key));
    const batch = new Batch();
    for (const candidate of candidates)
      if (!known.has(candidate.key)) this.insert(batch, candidate);
    await this.commit(batch);
  }

  async save(): Promise<void> {
    await this.commit(new Batch());
  }

  /** As committed. */
  get pages(): number {
    return (this.counts.fetched ?? 0) + (this.counts.unchanged ?? 0);
  }

  private linksOf(result: Result): Candidate[] {
    const { row, links } = result;
    const before = this.placed.get(result);
    if (before) return before;
    if (!links || !this.needs.followsLinks) return [];
    const fromExternal = this.needs.scope.isExternal(new URL(row.url));
    const origin: Origin = { parent: row.seq, depth: row.depth + 1, via: 'link', fromExternal };
    const found = this.needs.discovery.candidates(links, origin);
    this.placed.set(result, found);
    return found;
  }

  /** Where a page says it really is: by redirect or by canonical link. */
  private targetOf({ row, redirect, canonical }: Result): Candidate | undefined {
    const { discovery, crawl, scope } = this.needs;
    const link = redirect ?? (row.flags & canonicalFlag ? undefined : canonical);
    if (link === undefined) return undefined;
    const base = { parent: row.seq, depth: row.depth };
    if (redirect === undefined) return discovery.place(link, { ...base, via: 'canonical' });
    const isStart = row.via === 'start';
    if (isStart) {
      // A start that moved takes the crawl with it: http → https, example.com → www.example.com.
      const url = URL.parse(link);
      if (url && !crawl.state.hosts.includes(url.host)) {
        crawl.state.hosts.push(url.host);
        crawl.state.folders.push(folderOf(url));
        scope.widen(crawl.state);
      }
    }
    return discovery.place(link, {
      ...base,
      via: isStart ? 'start' : 'redirect',
      hops: row.hops + 1,
    });
  }

  private async decide(
    result: Result,
    target: Candidate | undefined,
    known: Map<string, UrlRow>,
    batch: Batch,
  ): Promise<Omit<UrlChange, 'seq'>> {
    const { change, row } = result;
    if (result.redirect !== undefined) {
      if (target && target.key !== row.key) this.admit(batch, target, known);
      return { ...change, target: target?.url ?? result.redirect };
    }
    if (!pageFates.has(change.fate)) return this.withRemoval(result);
    // A start is a page that was asked for by its address, whatever it says of itself.
    if (row.via === 'start') {
      if (change.textHash !== undefined) batch.texts.set(change.textHash, row.url);
      return this.compared(result);
    }
    if (target && target.key !== row.key) {
      const canonical = await this.canonicalTarget(result, target, known, batch);
      if (canonical) {
        const { seq, host } = row;
        batch.aliases.set(canonical, [...(batch.aliases.get(canonical) ?? []), { seq, host }]);
        return { ...change, fate: 'duplicate', reason: 'canonical', target: canonical };
      }
    }
    const same = await this.sameText(change.textHash, batch);
    if (same !== undefined && same !== row.url)
      return { ...change, fate: 'duplicate', reason: 'sameText', target: same };
    if (change.textHash !== undefined) batch.texts.set(change.textHash, row.url);
    return this.compared(result);
  }

  /** The address that stands for this page, if its canonical link can be believed. */
  private async canonicalTarget(
    { row, change }: Result,
    target: Candidate,
    known: Map<string, UrlRow>,
    batch: Batch,
  ): Promise<string | undefined> {
    const there = known.get(target.key);
    // Many sites call their front page the canonical address of everything. Only an equal text makes that true.
    const path = new URL(target.url).pathname;
    if (path === '/' && new URL(row.url).pathname !== '/') {
      return there && there.textHash === change.textHash ? target.url : undefined;
    }
    if (there) return pageFates.has(there.fate) || there.fate === 'queued' ? target.url : undefined;
    if (batch.fresh.has(target.key)) return target.url;
    if (target.fate !== 'queued') return undefined;
    this.insert(batch, target);
    return target.url;
  }

  private async sameText(hash: string | undefined, batch: Batch): Promise<string | undefined> {
    if (hash === undefined) return undefined;
    const here = batch.texts.get(hash);
    if (here !== undefined) return here;
    return (await this.needs.store.sameText(this.needs.crawl.crawl, hash))?.url;
  }

  private async compared(result: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store, pages } = this.needs;
    const { change } = result;
    if (earlier === undefined) return change;
    if (change.fate === 'unchanged') return { ...change, change: 'same' };
    const before = await store.byKey(earlier, result.row.key);
    if (!before || !pageFates.has(before.fate)) return { ...change, change: 'new' };
    if (before.textHash === change.textHash) return { ...change, change: 'same' };
    const stored = (await pages.bodies(earlier, [before.seq], ['markdown', 'text'])).get(
      before.seq,
    );
    const text = (stored?.markdown ?? stored?.text) as string | undefined;
    if (text !== undefined && result.compared !== undefined && result.body) {
      const { text: diff, added, removed } = diffLines(text, result.compared);
      result.body.diff = diff ?? `rewritten: ${removed} lines became ${added}`;
    }
    return { ...change, change: 'changed' };
  }

  private async withRemoval({ change, row }: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store } = this.needs;
    if (earlier === undefined || (change.status !== 404 && change.status !== 410)) return change;
    const before = await store.byKey(earlier, row.key);
    return before && pageFates.has(before.fate) ? { ...change, change: 'removed' } : change;
  }

  private apply(batch: Batch, result: Result, change: Omit<UrlChange, 'seq'>): void {
    const { crawl, health } = this.needs;
    const { row } = result;
    const at = this.needs.now();
    batch.steps.push(updateUrl(crawl.crawl, { ...change, seq: row.seq, fetchedAt: at }));
    const isPage = pageFates.has(change.fate);
    crawl.bytes += result.bytes;
    crawl.credits += isPage ? result.credits : 0;
    if (change.fate !== 'queued') {
      batch.wait(row.host, -1);
      batch.count(change.fate, 1);
      if (change.reason !== undefined) batch.count(`${change.fate}:${change.reason}`, 1);
      if (change.change !== undefined) batch.count(`change:${change.change}`, 1);
    }
    const resting = health.note(row.host, result.host);
    if (resting) batch.steps.push(setHost(crawl.crawl, resting));
    this.spend(batch, result, isPage);
    if (!isPage) return;
    for (const name of this.needs.budgets(row.url)) batch.count(name, 1);
    const { owner, crawl: id } = crawl;
    if (result.unchangedSince) {
      batch.steps.push(copyPage(result.unchangedSince, { crawl: id, seq: row.seq, owner, at }));
    } else if (result.body) {
      batch.steps.push(insertPage(id, { ...result.body, seq: row.seq, owner, url: row.url, at }));
    }
  }

  private spend({ spent }: Batch, result: Result, isPage: boolean): void {
    spent.credits += isPage ? result.credits : 0;
    spent.pages += isPage ? 1 : 0;
    spent.bytes += result.bytes;
    spent.browserMs += result.browserMs ?? 0;
  }

  /** A new address, or one that did not belong to the crawl from where it was found before. */
  private admit(batch: Batch, candidate: Candidate, known: Map<string, UrlRow>): void {
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

  private insert(batch: Batch, candidate: Candidate): void {
    if (batch.fresh.has(candidate.key)) return;
    batch.fresh.set(candidate.key, candidate);
    const { crawl, queuedMax } = this.needs;
    const reason = candidate.reason;
    if (candidate.fate === 'queued' && crawl.seqNext > queuedMax) {
      batch.count('unlisted', 1);
      return;
    }
    if (candidate.fate === 'queued') batch.wait(candidate.host, 1);
    else {
      if ((this.counts.skipped ?? 0) + (batch.counts.get('skipped') ?? 0) >= skippedRowsMax) {
        batch.count('unlisted', 1);
        return;
      }
      batch.count(candidate.fate, 1);
      batch.count(`${candidate.fate}:${reason}`, 1);
    }
    batch.steps.push(insertUrl(crawl.crawl, { ...candidate, seq: crawl.seqNext++ }));
  }

  /** Pages that stepped back for an address that could not be had are fetched after all. */
  private async releaseAliases(batch: Batch, urls: readonly string[]): Promise<void> {
    const { store, crawl } = this.needs;
    const here = urls.flatMap((url) => batch.aliases.get(url) ?? []);
    const written = this.counts['duplicate:canonical'] && urls.length > 0;
    const stored = written ? await store.aliasesOf(crawl.crawl, urls) : [];
    for (const { seq, host } of [...here, ...stored]) {
      batch.steps.push(requeueUrl(crawl.crawl, seq, 'duplicate', canonicalFlag));
      batch.wait(host, 1);
      batch.count('duplicate', -1);
      batch.count('duplicate:canonical', -1);
    }
  }

  private known(keys: readonly string[]): Promise<Map<string, UrlRow>> {
    if (keys.length === 0) return Promise.resolve(new Map());
    return this.needs.store.known(this.needs.crawl.crawl, [...new Set(keys)]);
  }

  private async commit(batch: Batch): Promise<void> {
    const { store, crawl, token } = this.needs;
    const id = crawl.crawl;
    for (const [host, delta] of batch.queued)
      if (delta !== 0) batch.steps.push(addQueued(id, host, delta));
    for (const [name, delta] of batch.counts)
      if (delta !== 0) batch.steps.push(addCount(id, name, delta));
    const { calls, bytes, credits } = batch.spent;
    if (calls + bytes + credits > 0) {
      const hour = hourOf(this.needs.now());
      batch.steps.push(spendStep(crawl.owner, hour, 'crawl', batch.spent));
    }
    batch.steps.push(saveCrawl(id, crawl));
    if (!(await store.commit(id, token, batch.steps))) throw new TakenOver();
    for (const [name, delta] of batch.counts) this.counts[name] = (this.counts[name] ?? 0) + delta;
  }
}

/** Another runner has the crawl now: this one must stop without a word. */
export class TakenOver extends Error {}
