// Assigns jobs to waiting workers when jobs become ready, and deletes ended jobs past the retention of their
// endpoint.
import type { Jobs } from '../../../jobs/jobs.ts';
import { Retention } from '../../../jobs/retention.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { Endpoints } from '../endpoints.ts';
import type { WorkerRegistry } from '../workers/registry.ts';
import type { EndpointStore } from '../store/endpoints.ts';

interface AssignmentLoopDeps {
  jobs: Jobs;
  registry: WorkerRegistry;
  endpoints: Endpoints;
  store: EndpointStore;
  clock: Clock;
  log: Log;
}

const everyMs = 5000;
/** Fallback for notifications: one may be lost, and some changes that make jobs ready send none. */
const fallbackMs = 1000;
const pruneLimit = 200;

export class AssignmentLoop implements Service {
  readonly name = 'endpoint retention';
  private readonly deps: AssignmentLoopDeps;
  private readonly loop: Loop;
  private readonly fallback: Loop;
  private readonly retention: Retention;
  private readonly unsubscribe: (() => void)[] = [];

  constructor(deps: AssignmentLoopDeps) {
    this.deps = deps;
    const { clock, log, jobs } = deps;
    const never = { maxAgeMs: Infinity, maxCount: Infinity, maxBytes: Infinity };
    this.retention = new Retention(jobs, clock, never);
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.prune() });
    const assignWaiting = async () => deps.registry.assigner.assignAll();
    this.fallback = new Loop({
      name: 'endpoint assignment',
      everyMs: fallbackMs,
      clock,
      log,
      run: assignWaiting,
    });
  }

  async start(): Promise<void> {
    const { jobs, registry } = this.deps;
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:'))
          registry.assigner.assignWaiting(queue.slice('endpoint:'.length));
      }),
    );
    await this.loop.start();
    await this.fallback.start();
  }

  async stop(): Promise<void> {
    for (const off of this.unsubscribe.splice(0)) off();
    await this.loop.stop();
    await this.fallback.stop();
  }

  /** Only endpoints whose retention is shorter than that of the home. */
  private async prune(): Promise<void> {
    const { endpoints, registry, store, clock } = this.deps;
    registry.assigner.forgetLostHolders();
    for (const { id, spec } of await endpoints.list()) {
      if (spec.retentionMs === undefined) continue;
      const before = clock.now() - spec.retentionMs;
      const ids = await store.forgettableIds(id, before, pruneLimit);
      if (ids.length > 0) await this.retention.forget(ids);
    }
  }
}
