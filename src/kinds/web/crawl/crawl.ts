// Runs a crawl until its queue is empty or a limit is reached: starts requests and writes their results. All state is in
// the store, so a crawl that is killed at any moment continues from there in the next run.
import { randomId } from '../../../runtime/id.ts';
import type { Run } from '../../../jobs/kind.ts';
import type { CrawlRow, Waiting } from '../store/rows.ts';
import { BudgetReserve } from '../billing/budget-reserve.ts';
import { Batches } from './write/batches.ts';
import { ByteBudget, ShareExceeded, type ByteShare } from './bytes.ts';
import { retryWhileUnavailable } from './write/retry-writes.ts';
import { Discovery } from './frontier/discovery.ts';
import { Frontier } from './frontier/frontier.ts';
import { HostHealth } from './frontier/host-health.ts';
import { Limits } from './limits.ts';
import { HostPacing } from './frontier/host-pacing.ts';
import type { CrawlOptions } from './options.ts';
import { Progress, reportEveryMs } from './progress.ts';
import type { Result } from './visit/result.ts';
import { folderOf, Scope } from './frontier/scope.ts';
import { EarlierCrawl } from './write/earlier-crawl.ts';
import { OwnHeaders } from './visit/own-headers.ts';
import { PathBudgets } from './frontier/path-budgets.ts';
import { parseUrl } from '../url.ts';
import type { CrawlDeps, StopCause } from './deps.ts';
import { Visitor } from './visit/visit.ts';
import { TakenOver, Writer } from './write/writer.ts';

/** Later than every stored time. */
const anyTime = Number.MAX_SAFE_INTEGER;

export class Crawl {
  readonly options: CrawlOptions;
  readonly deps: CrawlDeps;
  readonly stop = new AbortController();
  writer!: Writer;
  row!: CrawlRow;
  private readonly run: Run;
  private frontier!: Frontier;
  private visitor!: Visitor;
  private scope!: Scope;
  private health!: HostHealth;
  private earlier: EarlierCrawl | undefined;
  private budgets!: PathBudgets;
  private readonly batches: Batches;
  private readonly pace: HostPacing;
  private readonly budgetReserve: BudgetReserve;
  private readonly limits: Limits;
  private readonly progress: Progress;
  readonly ownHeaders: OwnHeaders;
  private byteBudget!: ByteBudget;
  private readonly reserved = new Map<number, string[]>();
  private readonly ended = Promise.withResolvers<void>();
  private suspended = false;
  private sitemapsDue: boolean;
  private inflight = 0;
  private failure: unknown;
  private wake = () => {};
  private activeSince = 0;

  constructor(run: Run, options: CrawlOptions, deps: CrawlDeps) {
    this.run = run;
    this.options = options;
    this.deps = deps;
    this.sitemapsDue = options.sitemap !== 'skip';
    this.pace = new HostPacing(options, deps.settings, (text) => this.warn(text));
    this.budgetReserve = new BudgetReserve(deps.clock, deps.hold);
    this.limits = new Limits(options, this.budgetReserve);
    this.progress = new Progress(run, deps.clock);
    this.ownHeaders = new OwnHeaders(options);
    this.batches = new Batches({
      clock: deps.clock,
      signal: run.signal,
      moreComing: () => this.inflight > 0,
      write: (batch) => this.write(batch),
      written: (batch) => this.written(batch),
      onDelayed: (error) =>
        deps.log.warn('pages could not be stored yet; retrying', { jobId: run.job.id, error }),
      onFailure: (error) => (this.failure ??= error),
      onChange: () => this.wake(),
    });
  }

  /** Stops after storing all results, so that another server can continue the crawl. */
  suspend(): Promise<void> {
    this.suspended = true;
    this.stop.abort();
    this.wake();
    return this.ended.promise;
  }

  setPaused(paused: boolean): void {
    this.row.paused = paused;
    this.wake();
  }

  async crawl(): Promise<StopCause> {
    const onStop = () => {
      this.stop.abort();
      this.wake();
    };
    this.run.signal.addEventListener('abort', onStop, { once: true });
    if (this.run.signal.aborted) this.stop.abort();
    try {
      await this.prepare();
      const cause = await this.runLoop();
      await this.drain(cause);
      return cause;
    } catch (error) {
      this.stop.abort();
      if (error instanceof TakenOver) return 'lost';
      throw error;
    } finally {
      this.run.signal.removeEventListener('abort', onStop);
      this.ended.resolve();
    }
  }

  private async prepare(): Promise<void> {
    const { store, clock, pages, pacer, settings } = this.deps;
    const { job } = this.run;
    const token = randomId('');
    this.row = await store.open(job.id, job.owner, clock.now());
    await store.takeOver(this.row.crawl, token);
    const { crawl } = this.row;
    this.activeSince = clock.now();
    this.byteBudget = new ByteBudget(this.options.maxBytes ?? Infinity, this.row.bytes);
    this.earlier = await EarlierCrawl.find(store, this.row.owner, this.options);
    this.budgets = new PathBudgets(this.options, () => this.writer.counts);
    this.scope = new Scope(this.options, this.row.state);
    this.frontier = new Frontier({
      store,
      crawl,
      clock,
      pacer,
      pace: (host) => this.pace.of(host),
      levels: this.options.maxDepth !== undefined,
    });
    this.health = new HostHealth({
      clock,
      maxFailures: settings.breakerFailures,
      restMs: settings.breakerRestMs,
      maxRests: settings.maxBreakerRests,
      onRest: (host, until) => this.frontier.rest(host, until),
    });
    const discovery = new Discovery(this.options, this.scope);
    this.writer = new Writer({
      store,
      pages,
      crawl: this.row,
      token,
      discovery,
      scope: this.scope,
      health: this.health,
      earlier: this.earlier?.crawl,
      followsLinks: this.options.sitemap !== 'only',
      maxQueued: settings.maxQueued,
      now: () => clock.now(),
      budgets: (url) => this.budgets.names(url),
      pageMessages: this.deps.pageMessages,
    });
    this.writer.counts = await store.counts(crawl);
    this.visitor = new Visitor({
      ...this.deps.visit,
      options: this.options,
      settings,
      clock,
      signal: this.stop.signal,
      ownHeaders: this.ownHeaders,
      earlier: this.earlier,
      crawlDelay: (host, delayMs) => this.setCrawlDelay(host, delayMs),
      pause: (host) => pacer.waitWithinTurn(host, this.pace.of(host), this.stop.signal),
    });
    for (const host of await store.readyHosts(crawl, anyTime, 10_000)) this.health.load(host);
    await this.queueStarts();
  }

  setCrawlDelay(host: string, delayMs: number): void {
    this.deps.pacer.delay(host, this.pace.setDelay(host, delayMs));
  }

  /** Runs a request other than a page visit (robots.txt, sitemaps) at the host's pace. */
  inTurn<T>(host: string, ask: () => Promise<T>): Promise<T> {
    return this.deps.pacer.turn(host, () => this.pace.of(host), this.stop.signal, ask);
  }

  /** Queues the start URLs in the first run, and the failed pages in a retry. */
  private async queueStarts(): Promise<void> {
    const { state } = this.row;
    if (this.row.seqNext === 1) {
      const { url: first, urls = [] } = this.options;
      const starts = [...new Set([first, ...urls])].flatMap((one) => (one ? parseUrl(one) : []));
      for (const url of starts) {
        if (!state.hosts.includes(url.host)) state.hosts.push(url.host);
        const folder = folderOf(url);
        if (state.folders.length < 1000 && !state.folders.includes(folder))
          state.folders.push(folder);
      }
      this.scope.widen(state);
      await this.writer.add(
        starts.map(({ href }) => href),
        { parent: null, depth: 0, via: 'start' },
      );
    }
    // An attempt after a lost one continues it. Only an explicit retry repeats the failed pages.
    const { attempt, lost } = this.run.job;
    if (attempt - lost > state.attempt) {
      await this.writer.requeueFailed();
      // A crawl that ended because of maxTimeMs gets the full time again.
      if (state.stopReason === 'time') this.row.activeMs = 0;
      Object.assign(state, { attempt, stopReason: undefined });
      await this.writer.save();
    }
  }

  private async runLoop(): Promise<StopCause> {
    for (;;) {
      if (this.failure !== undefined) throw this.failure;
      const cause = this.cause();
      if (cause) return cause;
      if (this.row.paused) await this.pause();
      if (!this.isWriting) await this.budgetReserve.refresh(this.row.credits);
      const next = (await this.isSitemapsTurn()) ? 'empty' : await this.fill();
      if (next === 'empty' && this.inflight === 0 && !this.isWriting) {
        if (await this.findMoreUrls()) continue;
        return 'exhausted';
      }
      await this.waitForChange(next === 'empty' ? Infinity : next);
      if (this.progress.isDue) await this.report();
    }
  }

  /** The queue is empty: tries remaining sitemaps, then links of duplicates, then pages of the earlier crawl. */
  private async findMoreUrls(): Promise<boolean> {
    while (!this.isHeld && (this.sitemapsDue || !this.writer.counts.queued)) {
      if (this.sitemapsDue || this.row.state.sitemaps?.length) {
        this.sitemapsDue = false;
        await this.deps.sitemaps(this);
      } else if (!(await this.writer.followDuplicates())) {
        const rows = (await this.earlier?.unseen(this.row.crawl)) ?? [];
        if (rows.length === 0) return false;
        await this.writer.recall(rows);
      }
    }
    this.frontier.touch();
    return true;
  }

  /** Sitemaps are read after every start was tried, because a start may redirect to another host. */
  private async isSitemapsTurn(): Promise<boolean> {
    return this.sitemapsDue && !(await this.deps.store.hasUntriedStart(this.row.crawl));
  }

  /** The crawl is paused or stopping: no new requests start. */
  get isHeld(): boolean {
    return this.row.paused || this.cause() !== undefined;
  }

  private cause(): StopCause | undefined {
    if (this.run.signal.aborted) {
      const reason = this.run.signal.reason as string;
      return reason === 'cancel' ? 'cancelled' : (reason as StopCause);
    }
    if (this.suspended) return 'shutdown';
    this.tick();
    return (
      this.limits.reached(this.writer.pages, this.row) ??
      (this.byteBudget.isFull ? 'bytes' : undefined)
    );
  }

  /** Starts as many requests as allowed. Returns the ms until the next one may start. */
  private async fill(): Promise<number | 'empty'> {
    const concurrency = this.options.concurrency ?? this.deps.settings.concurrency;
    while (!this.stop.signal.aborted) {
      if (this.inflight >= concurrency || this.batches.isFull) return Infinity;
      if (!this.limits.hasRoom(this.writer.pages, this.row.credits, this.reserved.size))
        return Infinity;
      const share = this.byteBudget.share();
      if (!share) return Infinity;
      const next = await this.frontier.next((row) =>
        this.budgets.mayStart(row.url, this.reserved.values()),
      );
      if (next !== 'empty' && 'row' in next) this.launch(next.row, share);
      else {
        this.byteBudget.settle(share, 0);
        return next === 'empty' ? next : next.waitMs;
      }
    }
    return Infinity;
  }

  private launch(row: Waiting, share: ByteShare): void {
    const names = this.budgets.names(row.url);
    this.reserved.set(row.seq, names);
    this.inflight++;
    const over = this.health.isGivenUp(row.host)
      ? { outcome: 'errored' as const, reason: 'hostDown' }
      : this.budgets.full(names);
    const visit = over
      ? Promise.resolve<Result>({ row, change: over, host: 'unknown', bytes: 0, credits: 0 })
      : this.visitor.visit(row, share);
    visit
      .then(
        (result) => {
          this.byteBudget.settle(share, result.bytes);
          this.batches.push(result);
        },
        (error: unknown) => {
          // Aborted because the crawl stops or the share was too small: the row stays queued.
          this.reserved.delete(row.seq);
          this.frontier.done(row);
          if (error instanceof ShareExceeded) this.byteBudget.refuse(share);
          else if (!this.stop.signal.aborted) this.failure = error;
        },
      )
      .finally(() => {
        this.inflight--;
        this.deps.pacer.release(row.host);
        this.batches.flush();
        this.wake();
      });
  }

  /** Some fetched results are not stored yet. */
  private get isWriting(): boolean {
    const { batches } = this;
    return batches.isWriting || (batches.waiting > 0 && this.failure === undefined);
  }

  private async write(batch: readonly Result[]): Promise<void> {
    this.tick();
    const { seqNext, bytes, credits } = this.row;
    await this.writer.write(batch).catch((error: unknown) => {
      Object.assign(this.row, { seqNext, bytes, credits });
      throw error;
    });
  }

  private written(batch: readonly Result[]): void {
    for (const { row } of batch) {
      this.reserved.delete(row.seq);
      this.frontier.done(row);
    }
    this.frontier.touch();
  }

  private async waitForChange(waitMs: number): Promise<void> {
    if (this.isWriting || this.failure !== undefined) waitMs = Math.min(waitMs, 50);
    const limit = Math.min(waitMs, reportEveryMs);
    const done = new AbortController();
    const waitForChange = new Promise<void>((resolve) => (this.wake = resolve));
    await Promise.race([waitForChange, this.deps.clock.sleep(limit, done.signal)]);
    done.abort();
  }

  /** Aborts running requests, stores all results and saves the stop reason. */
  private async drain(cause: StopCause): Promise<void> {
    this.stop.abort();
    while (this.inflight > 0 || this.isWriting) {
      this.batches.flush(true);
      await this.waitForChange(Infinity);
    }
    if (this.failure !== undefined) throw this.failure;
    if (cause !== 'shutdown' && cause !== 'lost') this.row.state.stopReason = cause;
    this.tick();
    const { clock } = this.deps;
    await retryWhileUnavailable(() => this.writer.save(), { clock, signal: this.run.signal });
    const isStopped = cause === 'cancelled' || cause === 'timeout';
    if (!this.suspended && cause !== 'lost') await this.report(isStopped ? undefined : cause);
  }

  private async pause(): Promise<void> {
    while (this.inflight > 0 || this.isWriting) await this.waitForChange(Infinity);
    this.tick();
    await this.report('paused');
    while (this.row.paused && !this.stop.signal.aborted) await this.waitForChange(Infinity);
    this.activeSince = this.deps.clock.now();
    await this.report();
  }

  /** Reports progress. At the end, the stage is the stop reason. */
  private async report(stage = 'crawling'): Promise<void> {
    const { queued = 0 } = this.writer.counts;
    await this.progress.pages(stage, {
      done: this.writer.pages,
      queued,
      max: this.options.maxPages,
    });
  }

  private tick(): void {
    const now = this.deps.clock.now();
    this.row.activeMs += Math.max(0, now - this.activeSince);
    this.activeSince = now;
  }

  warn(text: string): void {
    const { warnings } = this.row.state;
    if (warnings.length < 20 && !warnings.includes(text)) warnings.push(text);
  }
}
