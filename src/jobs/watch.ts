// Follows the events of all jobs for many readers. New events are read once with the current state of their jobs and kept in
// a short window that all readers share. A reader that is behind this window reads from the store.
import type { JobLine } from '../contracts/jobs.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeRecordOr } from '../runtime/json.ts';
import type { EventRow } from '../store/store.ts';
import type { EventFeed } from './events.ts';
import type { Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { paddedIds } from './ledger.ts';
import { toJobLine } from './view.ts';

/** An event with the state of its job when it was read. */
export interface WatchedEvent {
  event: EventRow;
  /** Undefined if the job was deleted. */
  state: JobState | undefined;
  /** For an event of type `deleted`: the facts that decide who may see it. */
  deleted: DeletedJob | undefined;
  /** The item as JSON, by whether the job matches the filter of a reader. Readers share it. */
  encoded: Map<boolean, string>;
}

export interface JobState {
  /** Without its result, and without a large input: many of these are in memory. */
  job: Job;
  line: JobLine;
  /** Whether `job` lacks its input. */
  lacksInput: boolean;
}

interface DeletedJob {
  owner: string;
  kind: string;
  queue: string;
}

const deletedEvent = 'deleted';

const pageSize = 500;
/** Columns with more text than this are not kept in memory. */
const maxInputChars = 2000;
/** Events kept for readers that are slightly behind. */
const maxWindow = 4000;
/** New events are read at most this often, because reading many at a time costs less. */
const batchMs = 50;

interface JobWatchDeps {
  jobs: Jobs;
  feed: EventFeed;
  clock: Clock;
}

export class JobWatch {
  private readonly deps: JobWatchDeps;
  private window: WatchedEvent[] = [];
  /** The window contains every event after this cursor; undefined before the first event. */
  private windowStart: number | undefined;
  private incoming: EventRow[] = [];
  private readers = 0;
  private stop: Promise<() => void> | undefined;
  private isReading = false;
  private waiting = new Set<() => void>();

  constructor(deps: JobWatchDeps) {
    this.deps = deps;
  }

  /** The cursor of the newest event. */
  newest(): Promise<number> {
    return this.deps.jobs.store.eventCursor();
  }

  /** Yields all events after the cursor in pages, and then new ones, until the signal aborts. */
  async *follow(cursor: number, signal: AbortSignal): AsyncGenerator<readonly WatchedEvent[]> {
    await this.open();
    let at = cursor;
    let wake = () => {};
    const onAbort = () => wake();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      while (!signal.aborted) {
        const changed = new Promise<void>((resolve) => (wake = resolve));
        this.waiting.add(wake);
        const entries = this.inWindow(at) ?? (await this.load(at));
        if (entries.length === 0) await changed;
        this.waiting.delete(wake);
        if (entries.length === 0) continue;
        at = entries.at(-1)!.event.cursor;
        yield entries;
      }
    } finally {
      this.waiting.delete(wake);
      signal.removeEventListener('abort', onAbort);
      await this.close();
    }
  }

  private async open(): Promise<void> {
    this.readers += 1;
    this.stop ??= this.deps.feed.subscribe((event) => this.receive(event));
    try {
      await this.stop;
    } catch (error) {
      this.readers -= 1;
      this.stop = undefined;
      throw error;
    }
  }

  private async close(): Promise<void> {
    this.readers -= 1;
    if (this.readers > 0) return;
    const stop = this.stop;
    this.stop = undefined;
    this.window = [];
    this.windowStart = undefined;
    this.incoming = [];
    (await stop)?.();
  }

  private inWindow(after: number): WatchedEvent[] | undefined {
    if (this.windowStart === undefined || after < this.windowStart) return undefined;
    let low = 0;
    let high = this.window.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.window[middle]!.event.cursor <= after) low = middle + 1;
      else high = middle;
    }
    return this.window.slice(low, low + pageSize);
  }

  private async load(after: number): Promise<WatchedEvent[]> {
    return this.withJobs(await this.deps.jobs.store.events(after, pageSize));
  }

  private receive(event: EventRow): void {
    this.incoming.push(event);
    if (this.isReading) return;
    this.isReading = true;
    setImmediate(() => void this.readIncoming());
  }

  private async readIncoming(): Promise<void> {
    while (this.incoming.length > 0) {
      const events = this.incoming.splice(0, pageSize);
      const source = this.stop;
      try {
        const entries = await this.withJobs(events);
        if (this.stop === source) this.add(entries);
      } catch {
        // Readers load these events from the store, which reports the error.
        this.window = [];
        this.windowStart = undefined;
      }
      for (const wake of this.waiting) wake();
      if (this.incoming.length < pageSize) await this.deps.clock.sleep(batchMs);
    }
    this.isReading = false;
  }

  private add(entries: readonly WatchedEvent[]): void {
    this.windowStart ??= entries[0]!.event.cursor - 1;
    this.window.push(...entries);
    const excess = this.window.length - maxWindow;
    if (excess <= 0) return;
    this.windowStart = this.window[excess - 1]!.event.cursor;
    this.window.splice(0, excess);
  }

  private async withJobs(events: readonly EventRow[]): Promise<WatchedEvent[]> {
    const ids = [...new Set(events.map(({ jobId }) => jobId).filter((id) => id !== ''))];
    const { jobs, clock } = this.deps;
    const found = await jobs.ledger.findMany(paddedIds(ids));
    const now = clock.now();
    const states = new Map(found.map((job) => [job.id, toState(jobs, job, now)]));
    return events.map((event) => ({
      event,
      state: states.get(event.jobId),
      deleted: event.type === deletedEvent ? toDeleted(event) : undefined,
      encoded: new Map(),
    }));
  }
}

function toState(jobs: Jobs, job: Job, now: number): JobState {
  const line = toJobLine(jobs, job, now);
  const lacksInput = (JSON.stringify(job.input) ?? '').length > maxInputChars;
  return {
    job: { ...job, result: null, ...(lacksInput ? { input: null } : {}) },
    line,
    lacksInput,
  };
}

function toDeleted({ data }: EventRow): DeletedJob {
  const { owner, kind, queue } = decodeRecordOr<Record<string, unknown>>(data, {});
  return { owner: String(owner), kind: String(kind), queue: String(queue) };
}
