// Stores crawl results: detects duplicates, queues new URLs and requeues failed ones. Each batch of results is one
// transaction, so counters, rows and page content stay consistent even if the process is killed.
import type { Step } from '../../../../store/store.ts';
import { copyPage, insertPage, type PageStore } from '../../store/pages.ts';
import {
  canonicalFlag,
  pageOutcomes,
  type CrawlRow,
  type UrlChange,
  type UrlRow,
} from '../../store/rows.ts';
import {
  addCount,
  addQueued,
  requeueUrl,
  saveCrawl,
  setHost,
  updateUrl,
} from '../../store/crawl-steps.ts';
import type { WebStore } from '../../store/crawls.ts';
import type { PageReport } from '../visit/result.ts';
import { chargeSteps } from '../../store/usage.ts';
import { UrlInserter } from '../frontier/url-inserter.ts';
import { Batch } from './batch.ts';
import { Comparison } from './comparison.ts';
import { RedirectLoops } from '../visit/redirect-loops.ts';
import type { Candidate, Discovery, Origin } from '../frontier/discovery.ts';
import type { HostHealth } from '../frontier/host-health.ts';
import type { Result } from '../visit/result.ts';
import { folderOf, type Scope } from '../frontier/scope.ts';

interface WriterDeps {
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
  maxQueued: number;
  now(): number;
  /** Names of the path budget counters of a page. */
  budgets(url: string): string[];
  /** Webhook messages about pages, for the same transaction. */
  pageMessages(pages: readonly PageReport[]): Step[];
}

/** Links of duplicates are tried in rounds of this size, until this many consecutive rounds find no new page. */
const roundLinks = 50;
const maxIdleRounds = 2;
/** Sites with many versions have many aliases. More than this per page indicates a trap. */
const aliasesPerPage = 10;
const minAliases = 1000;

export class Writer {
  private readonly deps: WriterDeps;
  private readonly comparison: Comparison;
  private readonly urlInserter: UrlInserter;
  private readonly redirectLoops: RedirectLoops;
  /** The committed counters. */
  counts: Record<string, number> = {};

  constructor(deps: WriterDeps) {
    this.deps = deps;
    this.comparison = new Comparison(deps);
    this.urlInserter = new UrlInserter({ ...deps, counts: () => this.counts });
    this.redirectLoops = new RedirectLoops(deps);
  }

  /** Queues URLs that were not found on a page: starts and sitemap entries. */
  async add(links: readonly string[], origin: Origin): Promise<void> {
    const candidates = this.deps.discovery.candidates(links, origin);
    const batch = new Batch();
    // Starts are stored only once per crawl.
    if (origin.via === 'start') batch.spent.calls = 1;
    const known = await this.known(candidates.map(({ key }) => key));
    for (const candidate of candidates)
      if (!known.has(candidate.key)) this.urlInserter.insert(batch, candidate);
    await this.commit(batch);
    this.deps.discovery.remember(candidates);
  }

  async write(results: readonly Result[]): Promise<void> {
    const batch = new Batch();
    const links = results.map((result) => this.linksOf(result, result.links));
    const refused = results.flatMap((result) => this.linksOf(result, result.nofollow));
    const targets = results.map((result) => this.targetOf(result));
    const keys = [...links.flat(), ...refused, ...targets.flatMap((target) => target ?? [])].map(
      ({ key }) => key,
    );
    const known = await this.known(keys);
    const ended: string[] = [];
    const pageMessages: PageReport[] = [];
    const followed: Candidate[] = [];
    const later: Candidate[] = [];
    let { pages } = this;
    for (const [i, result] of results.entries()) {
      const decided = await this.decide(result, targets[i], known, batch);
      const isPage = pageOutcomes.has(decided.outcome);
      const change = isPage ? { ...decided, nth: ++pages } : decided;
      this.apply(batch, result, change);
      pageMessages.push({ result, change });
      // Later results in this batch depend on this one.
      if (change.outcome !== 'queued') known.set(result.row.key, { ...result.row, ...change });
      (isPage || this.followsLinksOf(result, change) ? followed : later).push(...links[i]!);
      if (!isPage && change.outcome !== 'queued') ended.push(result.row.url);
    }
    for (const candidate of followed) this.urlInserter.insertOrReopen(batch, candidate, known);
    for (const candidate of later) this.urlInserter.postpone(batch, candidate, known);
    for (const candidate of refused) this.urlInserter.skipNofollow(batch, candidate, known);
    await this.releaseAliases(batch, ended);
    this.redirectLoops.requeueAffected(batch);
    batch.steps.push(...this.deps.pageMessages(pageMessages));
    await this.commit(batch);
    this.deps.discovery.remember(followed);
  }

  /**
   * Queues some links that only duplicates have, once nothing else is queued. They are sampled across the site, so that a
   * trap does not hide the rest. Returns false if there are none or if the last rounds found no new page.
   */
  async followDuplicates(): Promise<boolean> {
    if (!this.counts['skipped:onDuplicate']) return false;
    const { store, crawl } = this.deps;
    const { pages } = this;
    const before = crawl.state.duplicates;
    const idle = before && pages <= before.pages ? before.idle + 1 : 0;
    if (idle >= maxIdleRounds) return false;
    crawl.state.duplicates = { pages, idle };
    await this.requeue(await store.postponed(crawl.crawl, roundLinks));
    return true;
  }

  /** Queues the failed pages of an earlier attempt again. */
  async requeueFailed(): Promise<void> {
    const outcomes = ['errored', 'disallowed'] as const;
    for (let after = 0; ;) {
      const { store, crawl } = this.deps;
      const rows = await store.list(crawl.crawl, { after, limit: 200, outcomes });
      if (rows.length === 0) return;
      await this.requeue(
        rows.filter(
          ({ outcome, reason }) => outcome === 'errored' || reason === 'robotsUnreachable',
        ),
      );
      after = rows.at(-1)!.seq;
    }
  }

  private async requeue(rows: readonly UrlRow[]): Promise<void> {
    const batch = new Batch();
    for (const row of rows) {
      batch.steps.push(requeueUrl(this.deps.crawl.crawl, row.seq, row.outcome, 0));
      batch.wait(new URL(row.url).host, 1);
      batch.count(row.outcome, -1);
      if (row.reason) batch.count(`${row.outcome}:${row.reason}`, -1);
      if (row.change) batch.count(`change:${row.change}`, -1);
    }
    await this.commit(batch);
  }

  /** Queues pages of the earlier crawl that no link led to this time, to find out whether they still exist. */
  async recall(rows: readonly UrlRow[]): Promise<void> {
    const { discovery } = this.deps;
    const places = rows.flatMap(
      ({ url, depth }) => discovery.place(url, { parent: null, depth, via: 'earlier' }) ?? [],
    );
    const candidates = places.filter(({ outcome }) => outcome === 'queued');
    const known = await this.known(candidates.map(({ key }) => key));
    const batch = new Batch();
    for (const candidate of candidates)
      if (!known.has(candidate.key)) this.urlInserter.insert(batch, candidate);
    await this.commit(batch);
  }

  async save(): Promise<void> {
    await this.commit(new Batch());
  }

  /** Number of committed pages. */
  get pages(): number {
    return (this.counts.fetched ?? 0) + (this.counts.unchanged ?? 0);
  }

  private linksOf({ row }: Result, links: readonly string[] | undefined): Candidate[] {
    if (!links || !this.deps.followsLinks) return [];
    const fromExternal = this.deps.scope.isExternal(new URL(row.url));
    const origin: Origin = { parent: row.seq, depth: row.depth + 1, via: 'link', fromExternal };
    return this.deps.discovery.candidates(links, origin);
  }

  /**
   * Whether to follow the links of a URL that is not a page. Duplicates usually have the same links, and following all of
   * them leads into endless sites, so their links are postponed. Exceptions: a page whose canonical URL has another path,
   * such as the same chapter of an older edition, and a start that was read only for its links (`startsMatch`).
   */
  private followsLinksOf(
    { row }: Result,
    { outcome, reason, target }: Omit<UrlChange, 'seq'>,
  ): boolean {
    if (outcome === 'skipped' && row.via === 'start') return true;
    if (reason !== 'canonical' || target === undefined) return false;
    const aliases = this.counts['duplicate:canonical'] ?? 0;
    return pathOf(target) !== pathOf(row.url) && aliases < minAliases + aliasesPerPage * this.pages;
  }

  /** The target of a page's redirect or canonical link. */
  private targetOf({ row, redirect, canonical }: Result): Candidate | undefined {
    const { discovery, crawl, scope } = this.deps;
    const link = redirect ?? (row.flags & canonicalFlag ? undefined : canonical);
    if (link === undefined) return undefined;
    const base = { parent: row.seq, depth: row.depth };
    if (redirect === undefined) return discovery.place(link, { ...base, via: 'canonical' });
    const isStart = row.via === 'start';
    if (isStart) {
      // A start that redirects to another host moves the crawl there: example.com → www.example.com.
      const url = URL.parse(link);
      if (url && !crawl.state.hosts.includes(url.host)) {
        crawl.state.hosts.push(url.host);
        crawl.state.folders.push(folderOf(url));
        scope.widen(crawl.state);
        discovery.forget();
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
      if (!target || target.key === row.key) return { ...change, target: result.redirect };
      this.urlInserter.insertOrReopen(batch, target, known);
      return this.redirectLoops.resolve(batch, result, target, known);
    }
    if (!pageOutcomes.has(change.outcome)) return this.comparison.failure(result);
    // The caller asked for this URL, so its canonical link is ignored.
    if (row.via === 'start') {
      const reason = this.deps.scope.skipStart(new URL(row.url));
      if (reason !== undefined) return { ...change, outcome: 'skipped', reason };
      if (change.pageHash !== undefined) batch.texts.set(change.pageHash, row.url);
      return this.comparison.page(result);
    }
    if (target && target.key !== row.key) {
      const canonical = await this.canonicalTarget(result, target, known, batch);
      if (canonical) {
        const { seq, host } = row;
        batch.aliases.set(canonical, [...(batch.aliases.get(canonical) ?? []), { seq, host }]);
        return { ...change, outcome: 'duplicate', reason: 'canonical', target: canonical };
      }
    }
    const same = await this.samePage(change.pageHash, batch);
    if (same !== undefined && same !== row.url)
      return { ...change, outcome: 'duplicate', reason: 'sameText', target: same };
    if (change.pageHash !== undefined) batch.texts.set(change.pageHash, row.url);
    return this.comparison.page(result);
  }

  /** The canonical URL of this page, if its canonical link is plausible. */
  private async canonicalTarget(
    { row, change }: Result,
    target: Candidate,
    known: Map<string, UrlRow>,
    batch: Batch,
  ): Promise<string | undefined> {
    const there = known.get(target.key);
    // Many sites declare their home page as the canonical URL of every page. It is accepted only if the text is equal.
    const path = new URL(target.url).pathname;
    if (path === '/' && new URL(row.url).pathname !== '/') {
      return there && there.pageHash === change.pageHash ? target.url : undefined;
    }
    if (there)
      return pageOutcomes.has(there.outcome) || there.outcome === 'queued' ? target.url : undefined;
    if (batch.fresh.has(target.key)) return target.url;
    if (target.outcome !== 'queued') return undefined;
    this.urlInserter.insert(batch, target);
    return target.url;
  }

  private async samePage(hash: string | undefined, batch: Batch): Promise<string | undefined> {
    if (hash === undefined) return undefined;
    const here = batch.texts.get(hash);
    if (here !== undefined) return here;
    return (await this.deps.store.samePage(this.deps.crawl.crawl, hash))?.url;
  }

  private apply(batch: Batch, result: Result, change: Omit<UrlChange, 'seq'>): void {
    const { crawl, health } = this.deps;
    const { row } = result;
    const at = this.deps.now();
    batch.steps.push(updateUrl(crawl.crawl, { ...change, seq: row.seq, fetchedAt: at }));
    const isPage = pageOutcomes.has(change.outcome);
    crawl.bytes += result.bytes;
    crawl.credits += isPage ? result.credits : 0;
    if (change.outcome !== 'queued') {
      batch.wait(row.host, -1);
      batch.count(change.outcome, 1);
      if (change.reason !== undefined) batch.count(`${change.outcome}:${change.reason}`, 1);
      if (change.change !== undefined) batch.count(`change:${change.change}`, 1);
    }
    const resting = health.note(row.host, result.host);
    if (resting) batch.steps.push(setHost(crawl.crawl, resting));
    this.spend(batch, result, isPage);
    if (!isPage) return;
    for (const name of this.deps.budgets(row.url)) batch.count(name, 1);
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

  /** Queues duplicates again whose canonical page could not be fetched. */
  private async releaseAliases(batch: Batch, urls: readonly string[]): Promise<void> {
    const { store, crawl } = this.deps;
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
    return this.deps.store.known(this.deps.crawl.crawl, [...new Set(keys)]);
  }

  private async commit(batch: Batch): Promise<void> {
    const { store, crawl, token } = this.deps;
    const id = crawl.crawl;
    for (const [host, delta] of batch.queued)
      if (delta !== 0) batch.steps.push(addQueued(id, host, delta));
    for (const [name, delta] of batch.counts)
      if (delta !== 0) batch.steps.push(addCount(id, name, delta));
    const { calls, bytes, credits } = batch.spent;
    if (calls + bytes + credits > 0) {
      const payer = { id: crawl.jobId, owner: crawl.owner };
      batch.steps.push(...chargeSteps(payer, 'crawl', batch.spent, this.deps.now()));
    }
    batch.steps.push(saveCrawl(id, crawl));
    if (!(await store.commit(id, token, batch.steps))) throw new TakenOver();
    for (const [name, delta] of batch.counts) this.counts[name] = (this.counts[name] ?? 0) + delta;
  }
}

const pathOf = (url: string): string => {
  const { host, pathname } = new URL(url);
  return host + pathname;
};

/** Another runner took over the crawl. This one must stop without writing anything. */
export class TakenOver extends Error {}
