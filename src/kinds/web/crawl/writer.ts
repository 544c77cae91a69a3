// Results become rows: what is a duplicate, what is new, what waits again. All results that came in meanwhile are one
// command, so a crawl's counts, rows and bodies always agree, whenever it is killed.
import type { Step } from '../../../store/store.ts';
import { copyPage, insertPage, type PageStore } from '../pages/store.ts';
import { canonicalFlag, pageFates, type CrawlRow, type UrlChange, type UrlRow } from './rows.ts';
import { addCount, addQueued, requeueUrl, saveCrawl, setHost, updateUrl } from './store.ts';
import type { WebStore } from '../store.ts';
import type { Told } from '../webhooks.ts';
import { chargeSteps } from '../usage/store.ts';
import { Admission } from './admission.ts';
import { Batch } from './batch.ts';
import { Comparison } from './comparison.ts';
import { Detours } from './detours.ts';
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

/** Links of duplicates are tried so many at a time, until so many tries in a row brought no page. */
const roundLinks = 50;
const idleRoundsMax = 2;
/** Pages that stand for others are many where a site has many versions; more than this per page is a trap. */
const aliasesPerPage = 10;
const aliasesMin = 1000;

export class Writer {
  private readonly needs: WriterNeeds;
  private readonly comparison: Comparison;
  private readonly admission: Admission;
  private readonly detours: Detours;
  /** Kept counts, as committed. */
  counts: Record<string, number> = {};

  constructor(needs: WriterNeeds) {
    this.needs = needs;
    this.comparison = new Comparison(needs);
    this.admission = new Admission({ ...needs, counts: () => this.counts });
    this.detours = new Detours(needs);
  }

  /** Starts, or files of a sitemap: addresses without a page they were found on. */
  async add(links: readonly string[], origin: Origin): Promise<void> {
    const candidates = this.needs.discovery.candidates(links, origin);
    const batch = new Batch();
    // The starts are written once in the life of a crawl.
    if (origin.via === 'start') batch.spent.calls = 1;
    const known = await this.known(candidates.map(({ key }) => key));
    for (const candidate of candidates)
      if (!known.has(candidate.key)) this.admission.insert(batch, candidate);
    await this.commit(batch);
    this.needs.discovery.remember(candidates);
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
    const followed: Candidate[] = [];
    const later: Candidate[] = [];
    let { pages } = this;
    for (const [i, result] of results.entries()) {
      const decided = await this.decide(result, targets[i], known, batch);
      const isPage = pageFates.has(decided.fate);
      const change = isPage ? { ...decided, nth: ++pages } : decided;
      this.apply(batch, result, change);
      told.push({ result, change });
      // What the results after it are decided on.
      if (change.fate !== 'queued') known.set(result.row.key, { ...result.row, ...change });
      (isPage || this.leadsOn(result, change) ? followed : later).push(...links[i]!);
      if (!isPage && change.fate !== 'queued') ended.push(result.row.url);
    }
    for (const candidate of followed) this.admission.admit(batch, candidate, known);
    for (const candidate of later) this.admission.putOff(batch, candidate, known);
    await this.releaseAliases(batch, ended);
    this.detours.reopen(batch);
    batch.steps.push(...this.needs.told(told));
    await this.commit(batch);
    this.needs.discovery.remember(followed);
  }

  /**
   * Nothing else waits: links that only duplicates have. They are drawn from all over, lest a trap hide the rest, and no
   * further when they bring no page. False: there are none, or it is no use.
   */
  async followDuplicates(): Promise<boolean> {
    if (!this.counts['skipped:onDuplicate']) return false;
    const { store, crawl } = this.needs;
    const { pages } = this;
    const before = crawl.state.duplicates;
    const idle = before && pages <= before.pages ? before.idle + 1 : 0;
    if (idle >= idleRoundsMax) return false;
    crawl.state.duplicates = { pages, idle };
    await this.requeue(await store.putOff(crawl.crawl, roundLinks));
    return true;
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
      if (!known.has(candidate.key)) this.admission.insert(batch, candidate);
    await this.commit(batch);
  }

  async save(): Promise<void> {
    await this.commit(new Batch());
  }

  /** As committed. */
  get pages(): number {
    return (this.counts.fetched ?? 0) + (this.counts.unchanged ?? 0);
  }

  private linksOf({ row, links }: Result): Candidate[] {
    if (!links || !this.needs.followsLinks) return [];
    const fromExternal = this.needs.scope.isExternal(new URL(row.url));
    const origin: Origin = { parent: row.seq, depth: row.depth + 1, via: 'link', fromExternal };
    return this.needs.discovery.candidates(links, origin);
  }

  /**
   * Equal pages mostly have equal links, and following those of all is how endless sites begin: they are put off. Not so
   * those of a page that stands for one at another path, such as the same chapter of an older edition.
   */
  private leadsOn({ row }: Result, { reason, target }: Omit<UrlChange, 'seq'>): boolean {
    if (reason !== 'canonical' || target === undefined) return false;
    const aliases = this.counts['duplicate:canonical'] ?? 0;
    return pathOf(target) !== pathOf(row.url) && aliases < aliasesMin + aliasesPerPage * this.pages;
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
      this.admission.admit(batch, target, known);
      return this.detours.judge(batch, result, target, known);
    }
    if (!pageFates.has(change.fate)) return this.comparison.failure(result);
    // A start is a page that was asked for by its address, whatever it says of itself.
    if (row.via === 'start') {
      if (change.textHash !== undefined) batch.texts.set(change.textHash, row.url);
      return this.comparison.page(result);
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
    return this.comparison.page(result);
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
    this.admission.insert(batch, target);
    return target.url;
  }

  private async sameText(hash: string | undefined, batch: Batch): Promise<string | undefined> {
    if (hash === undefined) return undefined;
    const here = batch.texts.get(hash);
    if (here !== undefined) return here;
    return (await this.needs.store.sameText(this.needs.crawl.crawl, hash))?.url;
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
      const payer = { id: crawl.jobId, owner: crawl.owner };
      batch.steps.push(...chargeSteps(payer, 'crawl', batch.spent, this.needs.now()));
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

/** Another runner has the crawl now: this one must stop without a word. */
export class TakenOver extends Error {}
