// Jobs of endpoints that stand for a remote: given to it once, followed until they are over, copied here before the
// remote forgets them. Every step is a row first, so that a crash between any two lines doubles nothing.
import { queueKey } from '../../../jobs/intents.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { Endpoints } from '../endpoints.ts';
import type { Results } from '../results.ts';
import type { Remote } from '../spec.ts';
import type { EndpointRow } from '../store.ts';
import type { Streams } from '../stream/store.ts';
import type { RemoteClient } from './client.ts';
import { endThere, forgotten, isAboutKey, isEnd, outcomeOf } from './outcome.ts';
import { delayOf, holdMs, stepMsOf } from './pace.ts';
import { questionOf, Sender } from './sender.ts';
import { holderOf, remoteOf, type RemoteRow, type RemoteStore } from './store.ts';

export interface RemoteNeeds {
  jobs: Jobs;
  endpoints: Endpoints;
  store: RemoteStore;
  client: RemoteClient;
  results: Results;
  streams: Streams;
  clock: Clock;
  log: Log;
  node: string;
  /** Signs the address the remote calls back. */
  sign(purpose: string, text: string): string;
}

const everyMs = 200;
const atOnce = 32;
const claimAtOnce = 100;
/** How often the last chunks of an ended job are asked for when no answer comes. */
const streamMissesMax = 5;
const cancelTriesMax = 8;
const settleMsMax = 10_000;
const purpose = 'remote callback';

export class RemoteDriver implements Service {
  readonly name = 'remote endpoints';
  private readonly needs: RemoteNeeds;
  private readonly loop: Loop;
  private readonly sender: Sender;
  private readonly active = new Map<string, Promise<void>>();
  private readonly off: (() => void)[] = [];
  private beatAt = 0;
  /** No endpoint is at a remote, and no job. */
  private quiet = false;

  constructor(needs: RemoteNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.sender = new Sender({
      ...needs,
      callbackOf: (remote, attemptId) => this.callbackOf(remote, attemptId),
      finish: (row, outcome) => this.finish(row, outcome),
    });
    this.loop = new Loop({
      name: this.name,
      everyMs,
      isQuiet: () => this.quiet,
      clock,
      log,
      run: () => this.turn(),
    });
  }

  async start(): Promise<void> {
    const { jobs, store, clock, endpoints } = this.needs;
    this.off.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) this.loop.wake();
      }),
      endpoints.onChange(() => this.loop.wake()),
    );
    // Steps that were under way when the server ended: nobody is at them any more.
    for (const row of await store.all()) {
      if (row.state === 'sending') await store.move(row, { state: 'unsure', dueAt: clock.now() });
      else await store.nudge(row.attemptId, undefined, clock.now());
    }
    await this.loop.start();
  }

  async stop(): Promise<void> {
    for (const off of this.off.splice(0)) off();
    await this.loop.stop();
    await Promise.all(this.active.values());
  }

  busy(): Promise<boolean> {
    return this.needs.store.any();
  }

  /** The job is over here: it is stopped there too. */
  async cancel(attemptId: string): Promise<void> {
    await this.needs.store.nudge(attemptId, 'cancel', this.needs.clock.now());
    this.loop.wake();
  }

  /** Returns once the remote knows of every cancel of this endpoint, or did not answer for a while. */
  async settled(endpointId: string): Promise<void> {
    const { store, clock } = this.needs;
    const endsAt = clock.now() + settleMsMax;
    while ((await store.anyOf(endpointId)) && clock.now() < endsAt) await clock.sleep(everyMs);
  }

  /** The remote called: look now. What it said is not believed, only that something changed. */
  async called(attemptId: string, token: string): Promise<boolean> {
    const { sign, store, clock } = this.needs;
    if (sign(purpose, attemptId) !== token) return false;
    // A retry there calls the address of the attempt that was first.
    await store.nudgeJob(attemptId.slice(0, attemptId.lastIndexOf('.')), clock.now());
    this.loop.wake();
    return true;
  }

  private async turn(): Promise<void> {
    const { endpoints, store, clock } = this.needs;
    const there = (await endpoints.list()).filter(({ spec }) => spec.remote);
    this.quiet = there.length === 0 && !(await store.any());
    if (this.quiet) return;
    for (const endpoint of there) await this.claim(endpoint);
    await this.beat();
    const free = atOnce - this.active.size;
    if (free <= 0) return;
    for (const row of await store.due(clock.now(), free)) {
      if (this.active.has(row.attemptId)) continue;
      const step = this.step(row)
        .catch((error: unknown) => this.needs.log.warn('a remote step failed', { error }))
        .finally(() => {
          this.active.delete(row.attemptId);
          this.loop.wake();
        });
      this.active.set(row.attemptId, step);
    }
  }

  private async claim(endpoint: EndpointRow): Promise<void> {
    const { jobs, clock, store, client, node } = this.needs;
    if (!client.hasKey(endpoint.spec.remote!)) return;
    const now = clock.now();
    await jobs.claim({
      queues: [{ name: queueKey('endpoint', endpoint.id) }],
      limit: claimAtOnce,
      holder: holderOf(endpoint.id),
      node,
      leaseMs: endpoint.spec.leaseMs,
      stage: 'remote',
      steps: ({ attemptId, id: jobId }) =>
        store.insert({ attemptId, jobId, endpointId: endpoint.id, dueAt: now }, now),
    });
  }

  /** Jobs at a remote are alive as long as we follow them. */
  private async beat(): Promise<void> {
    const { jobs, store, clock, endpoints } = this.needs;
    const now = clock.now();
    if (now - this.beatAt < 1000) return;
    this.beatAt = now;
    const byEndpoint = Map.groupBy(await store.all(), ({ endpointId }) => endpointId);
    for (const [id, rows] of byEndpoint) {
      const leaseMs = (await endpoints.find(id))?.spec.leaseMs ?? 0;
      const attempts = rows.map(({ attemptId }) => attemptId);
      await jobs.store.heartbeat(attempts, holderOf(id), now + leaseMs);
    }
  }

  private async step(row: RemoteRow): Promise<void> {
    const { endpoints, jobs, store } = this.needs;
    const remote = remoteOf(row, (await endpoints.find(row.endpointId))?.spec.remote);
    const job = await jobs.ledger.find(row.jobId);
    const over = !job || isFinal(job.status) || job.attemptId !== row.attemptId;
    const isUnsent = row.state === 'intent';
    if (!remote || (over && isUnsent))
      return void (await store.store.commit([store.remove(row.attemptId)]));
    // An end that came from there took the row with it: this one came from here, and nobody told the remote yet.
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
        return this.stopThere(row, remote);
    }
  }

  private async poll(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock } = this.needs;
    if (!(await store.move(row, { state: 'sent', dueAt: clock.now() + stepMsOf(remote) }))) return;
    const path = `/status/${row.remoteId}`;
    const answer = await client.call(remote, { method: 'GET', path });
    const now = clock.now();
    if (answer.type === 'refused' && !isAboutKey(answer))
      return this.finish(row, forgotten(answer));
    if (answer.type !== 'ok') {
      const tries = row.tries + 1;
      const waitMs = answer.type === 'later' ? answer.waitMs : delayOf(tries);
      return void (await store.move(row, { state: 'sent', dueAt: now + waitMs, tries }));
    }
    const { status } = answer.body;
    const isQueued = status === 'IN_QUEUE';
    const isOver = isEnd(status);
    // After its end no later look brings what this one missed.
    if (!isQueued) await this.copyStream(row, remote, isOver ? streamMissesMax : 0);
    if (!isOver) {
      await this.reportProgress(job, answer.body);
      const dueAt = clock.now() + delayOf(row.tries);
      return void (await store.move(row, { state: 'sent', dueAt, tries: row.tries + 1 }));
    }
    const end = endThere(row.remoteId!, remote, answer.body);
    const { results } = this.needs;
    const { attemptId } = row;
    await this.finish(row, outcomeOf(answer.body, end, { results, attemptId }));
  }

  /** What the remote's handler has yielded since the last look. */
  private async copyStream(row: RemoteRow, remote: Remote, missesMax: number): Promise<void> {
    const { client, streams, jobs, clock } = this.needs;
    for (let misses = 0; ;) {
      const job = await jobs.get(row.jobId);
      const have = (job.facts.chunks as number | undefined) ?? 0;
      // `after` is for another Errand, where a lost answer loses no chunk; RunPod takes no notice of it.
      const path = `/stream/${row.remoteId}?wait=${holdMs}&after=${have}`;
      const answer = await client.call(remote, { method: 'GET', path, holdMs });
      if (answer.type === 'refused' || (answer.type !== 'ok' && misses === missesMax)) return;
      if (answer.type !== 'ok') {
        await clock.sleep(delayOf(misses++));
        continue;
      }
      const chunks = (answer.body.stream ?? []) as { output?: unknown; n?: number }[];
      for (const { output, n } of chunks)
        if (n === undefined || n > have)
          await streams.append({ jobId: row.jobId, attemptId: row.attemptId }, output);
      if (chunks.length === 0 || answer.body.status === 'IN_PROGRESS') return;
    }
  }

  private async reportProgress(job: Job, body: Record<string, unknown>): Promise<void> {
    const { output, status } = body;
    const before = job.facts.progressOutput;
    const stage = status === 'IN_QUEUE' ? 'remoteQueue' : 'remoteRunning';
    if (job.stage === stage && JSON.stringify(output) === JSON.stringify(before)) return;
    const facts = output === undefined ? {} : { facts: { progressOutput: output } };
    const { attemptId } = job;
    await this.needs.jobs.bring(job.id, { type: 'report', attemptId, stage, ...facts });
  }

  private async stopThere(row: RemoteRow, remote: Remote): Promise<void> {
    const { client, store, clock } = this.needs;
    if (!(await store.move(row, { state: 'cancel', dueAt: clock.now() + stepMsOf(remote) })))
      return;
    const remoteId = row.remoteId ?? (await this.idThere(row, remote));
    const answer = remoteId
      ? await client.call(remote, { method: 'POST', path: `/cancel/${remoteId}` })
      : undefined;
    const tries = row.tries + 1;
    const again = !answer || answer.type === 'later' || answer.type === 'unanswered';
    if (again && tries < cancelTriesMax)
      return void (await store.move(row, {
        state: 'cancel',
        dueAt: clock.now() + delayOf(tries),
        tries,
        ...(remoteId ? { remoteId } : {}),
      }));
    await store.store.commit([store.remove(row.attemptId)]);
  }

  private async idThere(row: RemoteRow, remote: Remote): Promise<string | undefined> {
    const path = questionOf(row.attemptId, null);
    const answer = await this.needs.client.call(remote, { method: 'GET', path });
    if (answer.type !== 'ok' || answer.body.idempotencyKey !== row.attemptId) return undefined;
    return ((answer.body.requests ?? []) as { id?: string }[])[0]?.id;
  }

  private async finish(row: RemoteRow, outcome: Outcome): Promise<void> {
    const { jobs, store } = this.needs;
    const { jobId, attemptId } = row;
    await jobs.finish({ jobId, attemptId }, outcome, () => [store.remove(attemptId)]);
  }

  private callbackOf({ callbackUrl }: Remote, attemptId: string): string | undefined {
    const root = callbackUrl?.replace(/\/$/, '');
    const token = encodeURIComponent(this.needs.sign(purpose, attemptId));
    return root === undefined ? undefined : `${root}/v2/hooks/${attemptId}?token=${token}`;
  }
}
