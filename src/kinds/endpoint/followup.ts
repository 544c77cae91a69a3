// What follows from events of endpoint jobs: work is handed out, and jobs past the retention of their endpoint
// are forgotten.
import type { EventFeed } from '../../jobs/events.ts';
import { finalEvents } from '../../jobs/ending.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import { Retention } from '../../jobs/retention.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import type { EventRow } from '../../store/store.ts';
import type { Endpoints } from './endpoints.ts';
import type { WorkerHub } from './hub.ts';
import type { EndpointStore } from './store.ts';

export interface FollowupNeeds {
  feed: EventFeed;
  jobs: Jobs;
  hub: WorkerHub;
  endpoints: Endpoints;
  store: EndpointStore;
  clock: Clock;
  log: Log;
}

const everyMs = 5000;
/** The floor under notifications: one may get lost, and not everything that lets work come is told by one. */
const floorMs = 1000;
const forgetAtOnce = 200;

export class Followup implements Service {
  readonly name = 'endpoint follow-up';
  private readonly needs: FollowupNeeds;
  private readonly loop: Loop;
  private readonly floor: Loop;
  private readonly retention: Retention;
  private readonly unsubscribe: (() => void)[] = [];

  constructor(needs: FollowupNeeds) {
    this.needs = needs;
    const { clock, log, jobs } = needs;
    const never = { ageMsMax: Infinity, countMax: Infinity, bytesMax: Infinity };
    this.retention = new Retention(jobs, clock, never);
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.prune() });
    const pump = async () => needs.hub.handout.pumpAll();
    this.floor = new Loop({ name: 'endpoint floor', everyMs: floorMs, clock, log, run: pump });
  }

  async start(): Promise<void> {
    const { feed, jobs, hub } = this.needs;
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) hub.handout.pump(queue.slice('endpoint:'.length));
      }),
      await feed.subscribe((event) => this.seen(event)),
    );
    await this.loop.start();
    await this.floor.start();
  }

  async stop(): Promise<void> {
    for (const off of this.unsubscribe.splice(0)) off();
    await this.loop.stop();
    await this.floor.stop();
  }

  private seen(event: EventRow): void {
    if (finalEvents.has(event.type)) this.needs.hub.handout.forgetJob(event.jobId);
  }

  /** Only for endpoints that keep results for a shorter time than the home does. */
  private async prune(): Promise<void> {
    const { endpoints, store, clock } = this.needs;
    for (const { id, spec } of await endpoints.list()) {
      if (spec.retentionMs === undefined) continue;
      const before = clock.now() - spec.retentionMs;
      const ids = await store.forgettableIds(id, before, forgetAtOnce);
      if (ids.length > 0) await this.retention.forget(ids);
    }
  }
}
