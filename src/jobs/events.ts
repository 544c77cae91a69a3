// Publishes the event log to listeners: waits, live pages, webhooks, MCP progress and task updates. Listeners receive
// committed events in order. After a commit the feed reads the new events once for all listeners.
import type { Log } from '../runtime/log.ts';
import type { EventRow, Store } from '../store/store.ts';

type EventListener = (event: EventRow) => void;

const pageSize = 500;

export class EventFeed {
  private readonly store: Store;
  private readonly log: Log;
  private readonly all = new Set<EventListener>();
  private readonly byJob = new Map<string, Set<EventListener>>();
  private cursor: number | undefined;
  private reading = false;
  private again = false;
  private readonly stopListening: () => void;

  constructor(store: Store, log: Log) {
    this.store = store;
    this.log = log;
    this.stopListening = store.onCommit(() => this.pump());
  }

  /** Delivers events from now on, for one job or for all jobs. */
  async subscribe(listener: EventListener, jobId?: string): Promise<() => void> {
    if (this.cursor === undefined) {
      const newest = await this.store.eventCursor();
      // A concurrent subscriber may have set the cursor already. It must not miss or repeat an event.
      this.cursor ??= newest;
    }
    const set = jobId === undefined ? this.all : this.listenersOf(jobId);
    set.add(listener);
    return () => {
      set.delete(listener);
      if (jobId !== undefined && set.size === 0) this.byJob.delete(jobId);
      // Without listeners the cursor is dropped, so that the next listener starts at the newest event.
      if (this.all.size === 0 && this.byJob.size === 0) this.cursor = undefined;
    };
  }

  close(): void {
    this.stopListening();
    this.all.clear();
    this.byJob.clear();
  }

  private listenersOf(jobId: string): Set<EventListener> {
    let set = this.byJob.get(jobId);
    if (!set) {
      set = new Set();
      this.byJob.set(jobId, set);
    }
    return set;
  }

  private pump(): void {
    if (this.cursor === undefined) return;
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    this.read()
      .catch((error: unknown) => this.log.warn('failed to read events', { error }))
      .finally(() => {
        this.reading = false;
        if (this.again) {
          this.again = false;
          this.pump();
        }
      });
  }

  private async read(): Promise<void> {
    for (;;) {
      if (this.cursor === undefined) return;
      const events = await this.store.events(this.cursor, pageSize);
      for (const event of events) {
        // The last listener unsubscribed while it handled an event.
        if (this.cursor === undefined) return;
        this.cursor = event.cursor;
        for (const listener of this.all) listener(event);
        for (const listener of this.byJob.get(event.jobId) ?? []) listener(event);
      }
      if (events.length < pageSize) return;
    }
  }
}
