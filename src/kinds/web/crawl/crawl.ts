// A crawl from its first start to its stop reason: fill the requests up, write what came back, until nothing waits or a
// limit is reached. Everything that counts is in the store; killed at any moment, the next run goes on from there.
import { randomId } from '../../../jobs/job.ts';
import type { Run } from '../../../jobs/kind.ts';
import type { CrawlRow, Waiting } from './rows.ts';
import { Allowance } from './allowance.ts';
import { Batches } from './batches.ts';
import { ByteRoom, ShareUsedUp, type ByteShare } from './bytes.ts';
import { patient } from './patience.ts';
import { Discovery } from './discovery.ts';
import { Frontier } from './frontier.ts';
import { HostHealth } from './health.ts';
import { Limits } from './limits.ts';
import { HostManners } from './manners.ts';
import type { CrawlOptions } from './options.ts';
import { Progress, reportEveryMs } from './progress.ts';
import type { Result } from './result.ts';
import { folderOf, Scope } from './scope.ts';
import { Earlier } from './earlier.ts';
import { OwnHeaders } from './own-headers.ts';
import { PathBudgets } from './path-budgets.ts';
import { parseUrl } from './url.ts';
import type { CrawlNeeds, StopCause } from './needs.ts';
import { Visitor } from './visit.ts';
import { TakenOver, Writer } from './writer.ts';

/** Later than every time that is written down. */
const anyTime = Number.MAX_SAFE_INTEGER;

export class Crawl {
  readonly options: CrawlOptions;
  readonly needs: CrawlNeeds;
  readonly stop = new AbortController();
  writer!: Writer;
  row!: CrawlRow;
  private readonly run: Run;
  private frontier!: Frontier;
  private visitor!: Visitor;
  private scope!: Scope;
  private health!: HostHealth;
  private earlier: Earlier | undefined;
  private budgets!: PathBudgets;
  private readonly batches: Batches;
  private readonly manners: HostManners;
  private readonly allowance: Allowance;
  private readonly limits: Limits;
  private readonly progress: Progress;
  readonly ownHeaders: OwnHeaders;
  private room!: ByteRoom;
  private readonly reserved = new Map<number, string[]>();
  private readonly ended = Promise.withResolvers<void>();
  private suspended = false;
  private sitemapsDue: boolean;
  private inflight = 0;
  private failure: unknown;
  private wake = () => {};
  private activeSince = 0;

  constructor(run: Run, options: CrawlOptions, needs: CrawlNeeds) {
    this.run = run;
    this.options = options;
    this.needs = needs;
    this.sitemapsDue = options.sitemap !== 'skip';
    this.manners = new HostManners(options, needs.settings, (text) => this.warn(text));
    this.allowance = new Allowance(needs.clock, needs.hold);
    this.limits = new Limits(options, this.allowance);
    this.progress = new Progress(run, needs.clock);
    this.ownHeaders = new OwnHeaders(options);
    this.batches = new Batches({
      clock: needs.clock,
      signal: run.signal,
      moreComing: () => this.inflight > 0,
      write: (batch) => this.write(batch),
      written: (batch) => this.written(batch),
      onDelayed: (error) =>
        needs.log.warn('pages could not be written yet', { jobId: run.job.id, error }),
      onFailure: (error) => (this.failure ??= error),
      onChange: () => this.wake(),
    });
  }

  /** Stands still with everything written; whoever adopts the job goes on. */
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
      const cause = await this.loop();
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
    const { store, clock, pages, pacer, settings } = this.needs;
    const { job } = this.run;
    const token = randomId('');
    this.row = await store.open(job.id, job.owner, clock.now());
    await store.takeOver(this.row.crawl, token);
    const { crawl } = this.row;
    this.activeSince = clock.now();
    this.room = new ByteRoom(this.options.bytesMax ?? Infinity, this.row.bytes);
    this.earlier = await Earlier.find(store, this.row.owner, this.options);
    this.budgets = new PathBudgets(this.options, () => this.writer.counts);
    this.scope = new Scope(this.options, this.row.state);
    this.frontier = new Frontier({
      store,
      crawl,
      clock,
      pacer,
      manners: (host) => this.manners.of(host),
      levels: this.options.maxDepth !== undefined,
    });
    this.health = new HostHealth({
      clock,
      failuresMax: settings.breakerFailures,
      restMs: settings.breakerRestMs,
      restsMax: settings.breakerRestsMax,
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
      queuedMax: settings.queuedMax,
      now: () => clock.now(),
      budgets: (url) => this.budgets.names(url),
      told: this.needs.told,
    });
    this.writer.counts = await store.counts(crawl);
    this.visitor = new Visitor({
      ...this.needs.visit,
      options: this.options,
      settings,
      clock,
      signal: this.stop.signal,
      ownHeaders: this.ownHeaders,
      earlier: this.earlier,
      crawlDelay: (host, wished) => this.keepDelay(host, wished),
      pause: (host) => pacer.again(host, this.manners.of(host), this.stop.signal),
    });
    for (const host of await store.readyHosts(crawl, anyTime, 10_000)) this.health.load(host);
    await this.begin();
  }

  /** The Crawl-delay of a site. */
  keepDelay(host: string, wished: number): void {
    this.needs.pacer.hold(host, this.manners.noteDelay(host, wished));
  }

  /** Asks a host for something beside its pages, at its pace. */
  inTurn<T>(host: string, ask: () => Promise<T>): Promise<T> {
    return this.needs.pacer.turn(host, () => this.manners.of(host), this.stop.signal, ask);
  }

  /** Starts, once; failed pages again when this is a retry. */
  private async begin(): Promise<void> {
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
    // An attempt that follows a lost one goes on with it; only somebody's retry means the failed pages.
    const { attempt, lost } = this.run.job;
    if (attempt - lost > state.attempt) {
      await this.writer.requeueFailed();
      // Opened again after its time was over, it has that time once more.
      if (state.stopReason === 'time') this.row.activeMs = 0;
      Object.assign(state, { attempt, stopReason: undefined });
      await this.writer.save();
    }
  }

  private async loop(): Promise<StopCause> {
    for (;;) {
      if (this.failure !== undefined) throw this.failure;
      const cause = this.cause();
      if (cause) return cause;
      if (this.row.paused) await this.pause();
      if (!this.isWriting) await this.allowance.look(this.row.credits);
      const next = (await this.isSitemapsTurn()) ? 'empty' : await this.fill();
      if (next === 'empty' && this.inflight === 0 && !this.isWriting) {
        if (await this.findMore()) continue;
        return 'exhausted';
      }
      await this.changed(next === 'empty' ? Infinity : next);
      if (this.progress.isDue) await this.report();
    }
  }

  /** Nothing waits any more: sitemaps left for later, links of duplicates, then what the earlier crawl knew. */
  private async findMore(): Promise<boolean> {
    while (!this.isHeld && (this.sitemapsDue || !this.writer.counts.queued)) {
      if (this.sitemapsDue || this.row.state.sitemaps?.length) {
        this.sitemapsDue = false;
        await this.needs.sitemaps(this);
      } else if (!(await this.writer.followDuplicates())) {
        const rows = (await this.earlier?.unseen(this.row.crawl)) ?? [];
        if (rows.length === 0) return false;
        await this.writer.recall(rows);
      }
    }
    this.frontier.touch();
    return true;
  }

  /** When every start was asked: where one has moved to, there are the sitemaps, and what they list belongs to the crawl. */
  private async isSitemapsTurn(): Promise<boolean> {
    return this.sitemapsDue && !(await this.needs.store.hasUntriedStart(this.row.crawl));
  }

  /** It is to stop, or to wait: nothing new is asked for. */
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
      this.limits.reached(this.writer.pages, this.row) ?? (this.room.isFull ? 'bytes' : undefined)
    );
  }

  /** Starts as many requests as may start. Ms until it makes sense to look again. */
  private async fill(): Promise<number | 'empty'> {
    const concurrency = this.options.concurrency ?? this.needs.settings.concurrency;
    while (!this.stop.signal.aborted) {
      if (this.inflight >= concurrency || this.batches.isFull) return Infinity;
      if (!this.limits.hasRoom(this.writer.pages, this.row.credits, this.reserved.size))
        return Infinity;
      const share = this.room.share();
      if (!share) return Infinity;
      const next = await this.frontier.next((row) =>
        this.budgets.mayStart(row.url, this.reserved.values()),
      );
      if (next !== 'empty' && 'row' in next) this.launch(next.row, share);
      else {
        this.room.settle(share, 0);
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
      ? { fate: 'errored' as const, reason: 'hostDown' }
      : this.budgets.full(names);
    const visit = over
      ? Promise.resolve<Result>({ row, change: over, host: 'unknown', bytes: 0, credits: 0 })
      : this.visitor.visit(row, share);
    visit
      .then(
        (result) => {
          this.room.settle(share, result.bytes);
          this.batches.push(result);
        },
        (error: unknown) => {
          // Given up because the crawl stops, or for want of bytes: the row still waits.
          this.reserved.delete(row.seq);
          this.frontier.done(row);
          if (error instanceof ShareUsedUp) this.room.refuse(share);
          else if (!this.stop.signal.aborted) this.failure = error;
        },
      )
      .finally(() => {
        this.inflight--;
        this.needs.pacer.release(row.host);
        this.batches.flush();
        this.wake();
      });
  }

  /** Something fetched is not in the store yet. */
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

  private async changed(waitMs: number): Promise<void> {
    if (this.isWriting || this.failure !== undefined) waitMs = Math.min(waitMs, 50);
    const limit = Math.min(waitMs, reportEveryMs);
    const done = new AbortController();
    const changed = new Promise<void>((resolve) => (this.wake = resolve));
    await Promise.race([changed, this.needs.clock.sleep(limit, done.signal)]);
    done.abort();
  }

  /** Requests under way are given up when the crawl must stop now, and awaited when it simply has enough. */
  private async drain(cause: StopCause): Promise<void> {
    this.stop.abort();
    while (this.inflight > 0 || this.isWriting) {
      this.batches.flush(true);
      await this.changed(Infinity);
    }
    if (this.failure !== undefined) throw this.failure;
    if (cause !== 'shutdown' && cause !== 'lost') this.row.state.stopReason = cause;
    this.tick();
    const { clock } = this.needs;
    await patient(() => this.writer.save(), { clock, signal: this.run.signal });
    const isStopped = cause === 'cancelled' || cause === 'timeout';
    if (!this.suspended && cause !== 'lost') await this.report(isStopped ? undefined : cause);
  }

  private async pause(): Promise<void> {
    while (this.inflight > 0 || this.isWriting) await this.changed(Infinity);
    this.tick();
    await this.report('paused');
    while (this.row.paused && !this.stop.signal.aborted) await this.changed(Infinity);
    this.activeSince = this.needs.clock.now();
    await this.report();
  }

  /** At the end the stage is why it stopped. */
  private async report(stage = 'crawling'): Promise<void> {
    const { queued = 0 } = this.writer.counts;
    await this.progress.pages(stage, {
      done: this.writer.pages,
      queued,
      max: this.options.maxPages,
    });
  }

  private tick(): void {
    const now = this.needs.clock.now();
    this.row.activeMs += Math.max(0, now - this.activeSince);
    this.activeSince = now;
  }

  warn(text: string): void {
    const { warnings } = this.row.state;
    if (warnings.length < 20 && !warnings.includes(text)) warnings.push(text);
  }
}
