// Jobs of remote endpoints: submitted to the remote once, followed until they end, and copied here before the remote
// deletes them. Every step is stored first, so that a crash at any point duplicates nothing.
import { queueKey } from '../../../jobs/intents.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { Endpoints } from '../endpoints.ts';
import type { Results } from '../jobs/results.ts';
import type { Remote } from '../spec.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import type { Streams } from '../store/streams.ts';
import type { RemoteClient } from './client.ts';
import {
  toRemoteEnd,
  forgotten,
  isAboutKey,
  isEnd,
  isQueued,
  isRunning,
  outcomeOf,
} from './outcome.ts';
import { delayOf, holdMs, stepMsOf } from './pace.ts';
import { requestsPath, Sender } from './sender.ts';
import { holderOf, remoteOf, type RemoteRow, type RemoteStore } from '../store/remote-jobs.ts';

interface RemoteDeps {
  jobs: Jobs;
  endpoints: Endpoints;
  store: RemoteStore;
  client: RemoteClient;
  results: Results;
  streams: Streams;
  clock: Clock;
  log: Log;
  node: string;
  /** Signs the callback URL. */
  sign(purpose: string, text: string): string;
}

const everyMs = 200;
const failedStepMs = 5000;
const maxActive = 32;
const claimLimit = 100;
/** How often the last chunks of an ended job are requested without a response. */
const maxStreamMisses = 5;
const maxCancelTries = 8;
const maxSettleMs = 10_000;
const purpose = 'remote callback';

export class RemoteDriver implements Service {
  readonly name = 'remote endpoints';
  private readonly deps: RemoteDeps;
  private readonly loop: Loop;
  private readonly sender: Sender;
  private readonly active = new Map<string, Promise<void>>();
  private readonly off: (() => void)[] = [];
  private heartbeatAt = 0;
  /** No endpoint has a remote, and no job is on one. */
  private quiet = false;

  constructor(deps: RemoteDeps) {
    this.deps = deps;
    const { clock, log } = deps;
    this.sender = new Sender({
      ...deps,
      callbackOf: (remote, attemptId) => this.callbackOf(remote, attemptId),
      finish: (row, outcome) => this.finish(row, outcome),
    });
    this.loop = new Loop({
      name: this.name,
      everyMs,
      isQuiet: () => this.quiet,
      clock,
      log,
      run: () => this.runDueSteps(),
    });
  }

  async start(): Promise<void> {
    const { jobs, store, clock, endpoints } = this.deps;
    this.off.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) this.loop.wake();
      }),
      endpoints.onChange(() => this.loop.wake()),
    );
    // Steps that were in progress when the server exited.
    for (const row of await store.all()) {
      if (row.state === 'sending') await store.move(row, { state: 'unsure', dueAt: clock.now() });
      else await store.makeDue(row.attemptId, undefined, clock.now());
    }
    await this.loop.start();
  }

  async stop(): Promise<void> {
    for (const off of this.off.splice(0)) off();
    await this.loop.stop();
    await Promise.all(this.active.values());
  }

  busy(): Promise<boolean> {
    return this.deps.store.any();
  }

  /** The job has ended here, so it is cancelled on the remote. */
  async cancel(attemptId: string): Promise<void> {
    await this.deps.store.makeDue(attemptId, 'cancel', this.deps.clock.now());
    this.loop.wake();
  }

  /** Resolves when the remote has received every cancel of this endpoint, or after a timeout. */
  async waitForCancels(endpointId: string): Promise<void> {
    const { store, clock } = this.deps;
    const endsAt = clock.now() + maxSettleMs;
    while ((await store.anyOf(endpointId)) && clock.now() < endsAt) await clock.sleep(everyMs);
  }

  /** Handles a callback of the remote by polling it now. The content of the callback is not trusted. */
  async handleCallback(attemptId: string, token: string): Promise<boolean> {
    const { sign, store, clock } = this.deps;
    if (sign(purpose, attemptId) !== token) return false;
    // A retry on the remote calls the URL of the first attempt.
    await store.makeJobDue(attemptId.slice(0, attemptId.lastIndexOf('.')), clock.now());
    this.loop.wake();
    return true;
  }

  private async runDueSteps(): Promise<void> {
    const { endpoints, store, clock } = this.deps;
    const there = (await endpoints.list()).filter(({ spec }) => spec.remote);
    this.quiet = there.length === 0 && !(await store.any());
    if (this.quiet) return;
    for (const endpoint of there) await this.claim(endpoint);
    await this.sendHeartbeats();
    const free = maxActive - this.active.size;
    if (free <= 0) return;
    for (const row of await store.due(clock.now(), free)) {
      if (this.active.has(row.attemptId)) continue;
      const step = this.step(row)
        .catch((error: unknown) => this.postpone(row, error))
        .finally(() => {
          this.active.delete(row.attemptId);
          this.loop.wake();
        });
      this.active.set(row.attemptId, step);
    }
  }

  /** A step that fails unexpectedly waits, so that one row cannot keep the server busy. Never throws. */
  private async postpone({ attemptId, jobId }: RemoteRow, error: unknown): Promise<void> {
    const { log, store, clock } = this.deps;
    log.warn('failed to advance a remote job', { jobId, error });
    await store.makeDue(attemptId, undefined, clock.now() + failedStepMs).catch(() => undefined);
  }

  private async claim(endpoint: EndpointRow): Promise<void> {
    const { jobs, clock, store, client, node } = this.deps;
    if (!client.hasKey(endpoint.spec.remote!)) return;
    const now = clock.now();
    await jobs.claim({
      queues: [{ name: queueKey('endpoint', endpoint.id) }],
      limit: claimLimit,
      holder: holderOf(endpoint.id),
      node,
      leaseMs: endpoint.spec.leaseMs,
      stage: 'remote',
      steps: ({ attemptId, id: jobId }) =>
        store.insert({ attemptId, jobId, endpointId: endpoint.id, dueAt: now }, now),
    });
  }

  /** Jobs on a remote keep their lease while this server follows them. */
  private async sendHeartbeats(): Promise<void> {
    const { jobs, store, clock, endpoints } = this.deps;
    const now = clock.now();
    if (now - this.heartbeatAt < 1000) return;
    this.heartbeatAt = now;
    const byEndpoint = Map.groupBy(await store.all(), ({ endpointId }) => endpointId);
    for (const [id, rows] of byEndpoint) {
      const leaseMs = (await endpoints.find(id))?.spec.leaseMs ?? 0;
      const attempts = rows.map(({ attemptId }) => attemptId);
      await jobs.store.heartbeat(attempts, holderOf(id), now + leaseMs);
    }
  }

  private async step(row: RemoteRow): Promise<void> {
    const { endpoints, jobs, store } = this.deps;
    const remote = remoteOf(row, (await endpoints.find(row.endpointId))?.spec.remote);
    const job = await jobs.ledger.find(row.jobId);
    const over = !job || isFinal(job.status) || job.attemptId !== row.attemptId;
    const isUnsent = row.state === 'intent';
    if (!remote || (over && isUnsent))
      return void (await store.store.commit([store.remove(row.attemptId)]));
    // An end reported by the remote removes the row. This job ended here, and the remote does not know yet.
    if (over && row.state !== 'cancel') return this.cancel(row.attemptId);
    switch (row.state) {
      case 'intent':
        return this.sender.send(row, remote, job!);
      case 'sending':
      case 'unsure':
        return this.sender.ask(row, remote, job!);
      case 'sent':
        return this.poll(row, remote, job!);
      case 'cancel':
        return this.cancelRemote(row, remote);
    }
  }

  private async poll(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock } = this.deps;
    if (!(await store.move(row, { state: 'sent', dueAt: clock.now() + stepMsOf(remote) }))) return;
    const path = `/status/${row.remoteId}`;
    const result = await client.call(remote, { method: 'GET', path });
    const now = clock.now();
    if (result.type === 'refused' && !isAboutKey(result))
      return this.finish(row, forgotten(result));
    if (result.type !== 'ok') {
      const tries = row.tries + 1;
      const waitMs = result.type === 'later' ? result.waitMs : delayOf(tries);
      return void (await store.move(row, { state: 'sent', dueAt: now + waitMs, tries }));
    }
    const { status } = result.body;
    const isOver = isEnd(status);
    // After the end there is no later poll that could read missed chunks.
    if (!isQueued(status)) await this.copyStream(row, remote, isOver ? maxStreamMisses : 0);
    if (!isOver) {
      await this.reportProgress(job, result.body);
      const dueAt = clock.now() + delayOf(row.tries);
      return void (await store.move(row, { state: 'sent', dueAt, tries: row.tries + 1 }));
    }
    const end = toRemoteEnd(row.remoteId!, remote, result.body);
    const { results } = this.deps;
    const { attemptId } = row;
    await this.finish(row, outcomeOf(result.body, end, { results, attemptId }));
  }

  /** Copies the chunks that the remote's handler has yielded since the last poll. */
  private async copyStream(row: RemoteRow, remote: Remote, maxMisses: number): Promise<void> {
    const { client, streams, jobs, clock } = this.deps;
    for (let misses = 0; ;) {
      const job = await jobs.get(row.jobId);
      const have = (job.facts.chunks as number | undefined) ?? 0;
      // Another Errand supports `after`, so that a lost response loses no chunk. RunPod ignores it.
      const path = `/stream/${row.remoteId}?wait=${holdMs}&after=${have}`;
      const result = await client.call(remote, { method: 'GET', path, holdMs });
      if (result.type === 'refused' || (result.type !== 'ok' && misses === maxMisses)) return;
      if (result.type !== 'ok') {
        await clock.sleep(delayOf(misses++));
        continue;
      }
      const chunks = (result.body.stream ?? []) as { output?: unknown; n?: number }[];
      for (const { output, n } of chunks)
        if (n === undefined || n > have)
          await streams.append({ jobId: row.jobId, attemptId: row.attemptId }, output);
      if (chunks.length === 0 || isRunning(result.body.status)) return;
    }
  }

  private async reportProgress(job: Job, body: Record<string, unknown>): Promise<void> {
    const { output, status } = body;
    const before = job.facts.progressOutput;
    const stage = isQueued(status) ? 'remoteQueue' : 'remoteRunning';
    if (job.stage === stage && JSON.stringify(output) === JSON.stringify(before)) return;
    const facts = output === undefined ? {} : { facts: { progressOutput: output } };
    const { attemptId } = job;
    await this.deps.jobs.applyFact(job.id, { type: 'report', attemptId, stage, ...facts });
  }

  private async cancelRemote(row: RemoteRow, remote: Remote): Promise<void> {
    const { client, store, clock } = this.deps;
    if (!(await store.move(row, { state: 'cancel', dueAt: clock.now() + stepMsOf(remote) })))
      return;
    const remoteId = row.remoteId ?? (await this.findRemoteId(row, remote));
    const result = remoteId
      ? await client.call(remote, { method: 'POST', path: `/cancel/${remoteId}` })
      : undefined;
    const tries = row.tries + 1;
    const again = !result || result.type === 'later' || result.type === 'unanswered';
    if (again && tries < maxCancelTries)
      return void (await store.move(row, {
        state: 'cancel',
        dueAt: clock.now() + delayOf(tries),
        tries,
        ...(remoteId ? { remoteId } : {}),
      }));
    await store.store.commit([store.remove(row.attemptId)]);
  }

  private async findRemoteId(row: RemoteRow, remote: Remote): Promise<string | undefined> {
    const path = requestsPath(row.attemptId, null);
    const result = await this.deps.client.call(remote, { method: 'GET', path });
    if (result.type !== 'ok' || result.body.idempotencyKey !== row.attemptId) return undefined;
    return ((result.body.requests ?? []) as { id?: string }[])[0]?.id;
  }

  private async finish(row: RemoteRow, outcome: Outcome): Promise<void> {
    const { jobs, store } = this.deps;
    const { jobId, attemptId } = row;
    await jobs.finish({ jobId, attemptId }, outcome, () => [store.remove(attemptId)]);
  }

  private callbackOf({ callbackUrl }: Remote, attemptId: string): string | undefined {
    const root = callbackUrl?.replace(/\/$/, '');
    const token = encodeURIComponent(this.deps.sign(purpose, attemptId));
    return root === undefined ? undefined : `${root}/v2/hooks/${attemptId}?token=${token}`;
  }
}
