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
import type { JobInput } from '../intake.ts';
import type { Results } from '../results.ts';
import type { EndpointRow } from '../store.ts';
import type { Streams } from '../stream/store.ts';
import type { RemoteClient } from './client.ts';
import type { RemoteRow, RemoteStore } from './store.ts';

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
const pollMs = { first: 150, factor: 1.5, max: 5000 };
/** How often the last chunks of an ended job are asked for when no answer comes. */
const streamMissesMax = 5;
const cancelTriesMax = 8;
const holdMs = 1000;
const purpose = 'remote callback';

export class RemoteDriver implements Service {
  readonly name = 'remote endpoints';
  private readonly needs: RemoteNeeds;
  private readonly loop: Loop;
  private readonly active = new Map<string, Promise<void>>();
  private off = () => {};
  private beatAt = 0;

  constructor(needs: RemoteNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.turn() });
  }

  async start(): Promise<void> {
    const { jobs, store, clock } = this.needs;
    this.off = jobs.store.onReady((queue) => {
      if (queue.startsWith('endpoint:')) this.loop.wake();
    });
    // Steps that were under way when the server ended: nobody is at them any more.
    for (const row of await store.all()) {
      if (row.state === 'sending') await store.move(row, { state: 'unsure', dueAt: clock.now() });
      else await store.nudge(row.attemptId, undefined, clock.now());
    }
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.off();
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

  /** The remote called: look now. What it said is not believed, only that something changed. */
  async called(attemptId: string, token: string): Promise<boolean> {
    const { sign, store, clock } = this.needs;
    if (sign(purpose, attemptId) !== token) return false;
    await store.nudge(attemptId, undefined, clock.now());
    this.loop.wake();
    return true;
  }

  private async turn(): Promise<void> {
    const { endpoints, store, clock } = this.needs;
    for (const endpoint of await endpoints.list())
      if (endpoint.spec.remote) await this.claim(endpoint);
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
    const endpoint = await endpoints.find(row.endpointId);
    const job = await jobs.ledger.find(row.jobId);
    const over = !job || isFinal(job.status) || job.attemptId !== row.attemptId;
    if (!endpoint?.spec.remote || (over && row.state !== 'cancel'))
      return void (await store.store.commit([store.remove(row.attemptId)]));
    switch (row.state) {
      case 'intent':
        return this.send(row, endpoint, job!);
      case 'sending':
      case 'unsure':
        return this.ask(row, endpoint);
      case 'sent':
        return this.poll(row, endpoint, job!);
      case 'cancel':
        return this.stopThere(row, endpoint);
    }
  }

  private async send(row: RemoteRow, endpoint: EndpointRow, job: Job): Promise<void> {
    const { client, store, clock } = this.needs;
    const sending = { state: 'sending', dueAt: clock.now() + stepMsOf(endpoint) } as const;
    if (!(await store.move(row, sending))) return;
    const remote = endpoint.spec.remote!;
    const body = this.requestBody(endpoint, job);
    const answer = await client.call(remote, {
      method: 'POST',
      path: '/run',
      body,
      key: row.attemptId,
    });
    const now = clock.now();
    if (answer.type === 'ok' && typeof answer.body.id === 'string')
      return void (await store.move(row, {
        state: 'sent',
        remoteId: answer.body.id,
        dueAt: now + pollMs.first,
        tries: 0,
      }));
    if (answer.type === 'later')
      return void (await store.move(row, { state: 'intent', dueAt: now + answer.waitMs }));
    if (answer.type === 'refused')
      return this.finish(row, failure('remoteRefused', `The remote refused it: ${answer.message}`));
    await store.move(row, { state: 'unsure', dueAt: now + pollMs.first });
  }

  /** It was sent and no answer came: the remote is asked before anything is sent again. */
  private async ask(row: RemoteRow, endpoint: EndpointRow): Promise<void> {
    const { client, store, clock } = this.needs;
    const { attemptId } = row;
    if (!(await store.move(row, { state: 'unsure', dueAt: clock.now() + stepMsOf(endpoint) })))
      return;
    const path = `/requests?idempotencyKey=${encodeURIComponent(attemptId)}`;
    const answer = await client.call(endpoint.spec.remote!, { method: 'GET', path });
    const now = clock.now();
    if (answer.type !== 'ok') {
      if (answer.type === 'refused' && !isAboutKey(answer))
        return this.finish(row, unknownFate(endpoint));
      const tries = row.tries + 1;
      const waitMs = answer.type === 'later' ? answer.waitMs : delayOf(tries);
      return void (await store.move(row, { state: 'unsure', dueAt: now + waitMs, tries }));
    }
    // Only a remote that knows idempotency keys can say for sure that it has no such job.
    if (answer.body.idempotencyKey !== attemptId) return this.finish(row, unknownFate(endpoint));
    const [found] = (answer.body.requests ?? []) as { id?: string }[];
    await store.move(
      row,
      found?.id === undefined
        ? { state: 'intent', dueAt: now }
        : { state: 'sent', remoteId: found.id, dueAt: now, tries: 0 },
    );
  }

  private async poll(row: RemoteRow, endpoint: EndpointRow, job: Job): Promise<void> {
    const { client, store, clock } = this.needs;
    if (!(await store.move(row, { state: 'sent', dueAt: clock.now() + stepMsOf(endpoint) })))
      return;
    const remote = endpoint.spec.remote!;
    const path = `/status/${row.remoteId}`;
    const answer = await client.call(remote, { method: 'GET', path });
    const now = clock.now();
    if (answer.type === 'refused' && !isAboutKey(answer)) {
      const text = `The remote no longer knows it (${answer.status}: ${answer.message}).`;
      return this.finish(row, failure('remoteForgot', text));
    }
    if (answer.type !== 'ok') {
      const tries = row.tries + 1;
      const waitMs = answer.type === 'later' ? answer.waitMs : delayOf(tries);
      return void (await store.move(row, { state: 'sent', dueAt: now + waitMs, tries }));
    }
    const { status } = answer.body;
    const isQueued = status === 'IN_QUEUE';
    const isOver = !isQueued && status !== 'IN_PROGRESS';
    // After its end no later look brings what this one missed.
    if (!isQueued) await this.copyStream(row, endpoint, isOver ? streamMissesMax : 0);
    if (!isOver) {
      await this.reportProgress(job, answer.body);
      const dueAt = clock.now() + delayOf(row.tries);
      return void (await store.move(row, { state: 'sent', dueAt, tries: row.tries + 1 }));
    }
    await this.finish(row, this.outcomeOf(row, answer.body));
  }

  /** What the remote's handler has yielded since the last look. */
  private async copyStream(
    row: RemoteRow,
    endpoint: EndpointRow,
    missesMax: number,
  ): Promise<void> {
    const { client, streams, jobs, clock } = this.needs;
    for (let misses = 0; ;) {
      const job = await jobs.get(row.jobId);
      const have = (job.facts.chunks as number | undefined) ?? 0;
      // `after` is for another Errand, where a lost answer loses no chunk; RunPod takes no notice of it.
      const path = `/stream/${row.remoteId}?wait=${holdMs}&after=${have}`;
      const answer = await client.call(endpoint.spec.remote!, { method: 'GET', path, holdMs });
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

  private outcomeOf(row: RemoteRow, body: Record<string, unknown>): Outcome {
    const { status, output, error, delayTime, executionTime, workerId } = body;
    const size = output === undefined ? 0 : (JSON.stringify(output)?.length ?? 0);
    const kept = output === undefined ? {} : this.needs.results.keep(row.attemptId, output, size);
    const remote = { id: row.remoteId, delayTime, executionTime, workerId };
    const facts = { ...kept.facts, remote };
    const message = typeof error === 'string' ? error : JSON.stringify(error ?? status);
    switch (status) {
      case 'COMPLETED':
        return { type: 'completed', ...kept, facts };
      case 'CANCELLED':
        return {
          type: 'cancelled',
          error: { code: 'cancelled', message: 'It was cancelled at the remote.' },
          ...kept,
          facts,
        };
      case 'TIMED_OUT':
        return {
          type: 'timed_out',
          error: { code: 'queueTimeout', message },
          retry: false,
          ...kept,
          facts,
        };
      default: {
        const code = message === 'executionTimeout exceeded' ? 'executionTimeout' : 'handlerError';
        return { type: 'failed', error: { code, message }, retry: false, ...kept, facts };
      }
    }
  }

  private async stopThere(row: RemoteRow, endpoint: EndpointRow): Promise<void> {
    const { client, store, clock } = this.needs;
    if (!(await store.move(row, { state: 'cancel', dueAt: clock.now() + stepMsOf(endpoint) })))
      return;
    const remote = endpoint.spec.remote!;
    const remoteId = row.remoteId ?? (await this.idThere(row, endpoint));
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

  private async idThere(row: RemoteRow, endpoint: EndpointRow): Promise<string | undefined> {
    const path = `/requests?idempotencyKey=${encodeURIComponent(row.attemptId)}`;
    const answer = await this.needs.client.call(endpoint.spec.remote!, { method: 'GET', path });
    if (answer.type !== 'ok' || answer.body.idempotencyKey !== row.attemptId) return undefined;
    return ((answer.body.requests ?? []) as { id?: string }[])[0]?.id;
  }

  private async finish(row: RemoteRow, outcome: Outcome): Promise<void> {
    const { jobs, store } = this.needs;
    const { jobId, attemptId } = row;
    await jobs.finish({ jobId, attemptId }, outcome, () => [store.remove(attemptId)]);
  }

  private requestBody(endpoint: EndpointRow, job: Job): Record<string, unknown> {
    const { input, s3Config, policy } = job.input as JobInput;
    const { callbackUrl } = endpoint.spec.remote!;
    const token = encodeURIComponent(this.needs.sign(purpose, job.attemptId));
    const ttl =
      job.expiresAt === null
        ? {}
        : { ttl: Math.max(job.expiresAt - this.needs.clock.now(), 10_000) };
    return {
      input: input === undefined ? {} : input,
      policy: { ...policy, ...ttl },
      ...(s3Config === undefined ? {} : { s3Config }),
      ...(callbackUrl === undefined
        ? {}
        : {
            webhook: `${callbackUrl.replace(/\/$/, '')}/v2/hooks/${job.attemptId}?token=${token}`,
          }),
    };
  }
}

export const holderOf = (endpointId: string): string => `remote:${endpointId}`;

/** While one step of a row is under way, nobody else takes it: longer than any call may last. */
function stepMsOf({ spec }: EndpointRow): number {
  return 2 * spec.remote!.timeoutMs + holdMs;
}

function delayOf(tries: number): number {
  return Math.round(Math.min(pollMs.first * pollMs.factor ** tries, pollMs.max));
}

function failure(code: string, message: string): Outcome {
  return { type: 'failed', error: { code, message }, retry: false };
}

/** A key that is wrong today may be right tomorrow; it says nothing about the job. */
function isAboutKey({ status }: { status: number }): boolean {
  return status === 401 || status === 402 || status === 403;
}

function unknownFate({ spec }: EndpointRow): Outcome {
  return {
    type: 'failed',
    error: {
      code: 'submitUnknown',
      message: `It was sent to ${spec.remote!.baseUrl}, no answer came, and that remote cannot say whether it has the job: it may run there, or not.`,
      hint: 'Look at the requests of the endpoint there; if it is not among them, retry_job sends it again. Nothing is ever sent twice by itself.',
    },
    retry: false,
  };
}
