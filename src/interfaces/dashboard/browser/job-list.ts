// The live list of jobs that match a filter: pages from list_jobs, changed in place by the event stream.
import { computed, effect, signal } from '@preact/signals';
import { get } from './api.ts';
import { inputOf, isEmpty, matches, parseFilter, type Filter } from './query.ts';
import { now } from './now.ts';
import { isComplete, onChanges } from './stream/client.ts';
import type { Change } from './stream/messages.ts';
import type { JobLine } from './types.ts';

export interface Count {
  count: number;
  isExact: boolean;
  byStatus: Record<string, number>;
}

const pageSize = 100;
/** Rows in memory while the list grows at its top. */
const maxLiveRows = 1000;
/** The reader learns that there are more; the exact number would cost memory. */
export const maxFresh = 10_000;
const countDelayMs = 1000;
const maxStreamWaitMs = 400;

export class JobList {
  readonly query: string;
  readonly sort: string;
  readonly filter: Filter;
  readonly rows = signal<readonly JobLine[]>([]);
  readonly total = signal<Count | undefined>(undefined);
  readonly error = signal<unknown>(undefined);
  readonly isLoading = signal(true);
  readonly hasMore = signal(false);
  /** Jobs that match but are not shown yet, because the reader has scrolled or filtered. */
  readonly freshIds = signal<ReadonlySet<string>>(new Set());
  readonly staleCount = computed(() => this.rows.value.filter(({ isStale }) => isStale).length);
  /** Set by the view: new rows are inserted only when the reader looks at the top. */
  isAtTop = true;
  private nextCursor: string | undefined;
  private readonly abort = new AbortController();
  private readonly off: () => void;
  private loading: Promise<void> | undefined;
  private isTrimmed = false;
  /** Counts how often the list was loaded from the beginning. */
  private round = 0;
  private early: Change[] | undefined = [];
  private countTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(query: string, sort: string) {
    this.query = query;
    this.sort = sort;
    this.filter = parseFilter(query);
    // Changes that arrive before the first page are applied after it: none is missed.
    const offChanges = onChanges((changes) => this.receive(changes));
    // Loads when the stream is ready, or without it, and then once more.
    const timer = setTimeout(() => void this.reload(), maxStreamWaitMs);
    const offComplete = effect(() => {
      if (!isComplete.value) return;
      clearTimeout(timer);
      queueMicrotask(() => void this.reload());
    });
    this.off = () => {
      clearTimeout(timer);
      offComplete();
      offChanges();
    };
  }

  get isFiltered(): boolean {
    return !isEmpty(this.filter) || this.sort !== '';
  }

  close(): void {
    this.off();
    this.abort.abort();
    clearTimeout(this.countTimer);
  }

  async reload(): Promise<void> {
    this.nextCursor = undefined;
    this.isTrimmed = false;
    this.early = [];
    this.freshIds.value = new Set();
    this.round += 1;
    await this.load(true);
    void this.recount();
  }

  loadMore(): void {
    if (!this.hasMore.value || this.loading) return;
    void this.load(false);
  }

  private load(isFirst: boolean): Promise<void> {
    this.isLoading.value = true;
    const loading = this.fetchPage(isFirst).finally(() => {
      if (this.loading === loading) {
        this.loading = undefined;
        this.isLoading.value = false;
      }
    });
    this.loading = loading;
    return loading;
  }

  private async fetchPage(isFirst: boolean): Promise<void> {
    const { round, isTrimmed } = this;
    const position = isFirst ? {} : this.position();
    this.isTrimmed = false;
    try {
      const { jobs, nextCursor } = await get<{ jobs: JobLine[]; nextCursor?: string }>(
        'api/jobs',
        {
          ...inputOf(this.filter),
          limit: pageSize,
          ...(this.sort === '' ? {} : { sort: this.sort }),
          ...position,
        },
        this.abort.signal,
      );
      // The list was loaded again, or its end was cut off: this page does not follow its last row.
      if (round !== this.round || this.isTrimmed) return;
      const before = isFirst ? [] : this.rows.value;
      const known = new Set(before.map(({ id }) => id));
      this.rows.value = [...before, ...jobs.filter(({ id }) => !known.has(id))];
      this.nextCursor = nextCursor;
      this.hasMore.value = nextCursor !== undefined;
      this.error.value = undefined;
      const { early } = this;
      this.early = undefined;
      if (early && early.length > 0) this.receive(early);
    } catch (error) {
      if (this.abort.signal.aborted || round !== this.round) return;
      this.isTrimmed = isTrimmed;
      this.error.value = error;
    }
  }

  /** Where the next page begins. Trimmed lists have no filter, so that the time of their last row is enough. */
  private position(): Record<string, string> {
    const last = this.isTrimmed ? this.rows.value.at(-1) : undefined;
    if (last) return { before: new Date(Date.parse(last.createdAt) + 1).toISOString() };
    return this.nextCursor === undefined ? {} : { cursor: this.nextCursor };
  }

  private receive(changes: readonly Change[]): void {
    // The first page could not be read, and now the server can be reached again.
    if (this.early && this.error.value !== undefined && !this.loading) return void this.reload();
    if (this.early) return void this.early.push(...changes);
    if (changes.some((change) => 'reset' in change)) return void this.reload();
    const newest = new Map<string, JobLine | undefined>();
    for (const change of changes) {
      if ('removed' in change) newest.set(change.removed, undefined);
      else if ('job' in change) newest.set(change.job.id, change.job);
    }
    this.apply(newest);
    this.scheduleCount();
  }

  private apply(newest: Map<string, JobLine | undefined>): void {
    const at = now.value;
    const fresh = new Set(this.freshIds.value);
    let isChanged = false;
    const rows = this.rows.value.flatMap((row) => {
      if (!newest.has(row.id)) return [row];
      const job = newest.get(row.id);
      newest.delete(row.id);
      isChanged = true;
      if (!job) return [];
      return [matches(this.filter, job, at) === false ? { ...job, isStale: true } : job];
    });
    const added: JobLine[] = [];
    for (const [id, job] of newest) {
      if (!job) fresh.delete(id);
      else if (matches(this.filter, job, at) !== true || this.isOlder(job)) fresh.delete(id);
      else if (!this.isFiltered && this.isAtTop) added.push(job);
      else if (fresh.size < maxFresh) fresh.add(id);
    }
    if (added.length > 0) {
      added.sort((a, b) =>
        a.createdAt < b.createdAt ? 1 : a.createdAt > b.createdAt ? -1 : b.id < a.id ? -1 : 1,
      );
      this.rows.value = this.trim([...added, ...rows]);
    } else if (isChanged) this.rows.value = rows;
    if (fresh.size !== this.freshIds.value.size) this.freshIds.value = fresh;
  }

  /** A job that changed further down the list, on a page that is not loaded. */
  private isOlder({ createdAt }: JobLine): boolean {
    const last = this.rows.value.at(-1);
    return this.hasMore.value && last !== undefined && createdAt < last.createdAt;
  }

  private trim(rows: readonly JobLine[]): readonly JobLine[] {
    if (rows.length <= maxLiveRows) return rows;
    // The cursor of the next page belongs to rows that are no longer shown.
    this.isTrimmed = true;
    this.hasMore.value = true;
    return rows.slice(0, maxLiveRows);
  }

  private scheduleCount(): void {
    if (this.countTimer !== undefined) return;
    this.countTimer = setTimeout(() => {
      this.countTimer = undefined;
      void this.recount();
    }, countDelayMs);
  }

  private async recount(): Promise<void> {
    try {
      const filter = inputOf(this.filter);
      this.total.value = await get<Count>('api/jobs/count', filter, this.abort.signal);
    } catch {
      // The list shows its own error. A missing total is not worth a second one.
    }
  }
}
