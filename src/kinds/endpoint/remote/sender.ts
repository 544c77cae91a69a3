// Giving an attempt to a remote, exactly once: a row says so before anything leaves, and when no answer comes the remote
// is asked before anything is sent again. A job that failed there is run again there by the remote's own retry.
import type { Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { JobInput } from '../intake.ts';
import type { Remote } from '../spec.ts';
import type { RemoteAnswer, RemoteClient } from './client.ts';
import {
  addressOf,
  endThere,
  failure,
  forgotten,
  isAboutKey,
  unknownFate,
  type EndThere,
} from './outcome.ts';
import { delayOf, soonMs, stepMsOf } from './pace.ts';
import type { RemoteRow, RemoteStore } from './store.ts';

export interface SenderNeeds {
  jobs: Jobs;
  store: RemoteStore;
  client: RemoteClient;
  clock: Clock;
  /** The address the remote calls when the job has changed; undefined: it cannot reach us. */
  callbackOf(remote: Remote, attemptId: string): string | undefined;
  finish(row: RemoteRow, outcome: Outcome): Promise<void>;
}

/** How often a remote without keys is looked at before a retry whose answer was lost counts as unknown. */
const looksMax = 4;

export class Sender {
  private readonly needs: SenderNeeds;

  constructor(needs: SenderNeeds) {
    this.needs = needs;
  }

  async send(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const before = await this.endBefore(remote, job);
    if (before && !(await this.sendRetry(row, remote, before.id))) return;
    await this.sendRun(row, remote, job);
  }

  /** It was sent and no answer came: the remote is asked before anything is sent again. */
  async ask(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock, finish } = this.needs;
    const { attemptId, remoteId } = row;
    if (!(await store.move(row, { state: 'unsure', dueAt: clock.now() + stepMsOf(remote) })))
      return;
    const path = questionOf(attemptId, remoteId);
    const answer = await client.call(remote, { method: 'GET', path });
    const isRefused = answer.type === 'refused' && !isAboutKey(answer);
    if (answer.type !== 'ok' && !isRefused) return this.askLater(row, answer);
    // Only a remote that knows such keys can say for sure that it has no such job.
    if (answer.type !== 'ok' || !knowsKeys(answer.body, row))
      return remoteId === null ? finish(row, unknownFate(remote)) : this.look(row, remote, job);
    const [found] = (answer.body.requests ?? []) as { id?: string }[];
    const dueAt = clock.now();
    await store.move(
      row,
      found?.id === undefined
        ? { state: 'intent', dueAt, remoteId: null }
        : { state: 'sent', remoteId: found.id, dueAt, tries: 0 },
    );
  }

  private async sendRun(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock, finish } = this.needs;
    const dueAt = clock.now() + stepMsOf(remote);
    if (!(await store.move(row, { state: 'sending', dueAt, remoteId: null, remote }))) return;
    const answer = await client.call(remote, {
      method: 'POST',
      path: '/run',
      body: this.requestBody(remote, job),
      key: row.attemptId,
    });
    if (answer.type === 'ok' && typeof answer.body.id === 'string')
      return this.isThere(row, answer.body.id);
    if (answer.type === 'refused') return finish(row, refusal(answer, remote));
    await this.sendLater(row, answer);
  }

  /** True: the remote will not run that one again, a new one is to be sent. */
  private async sendRetry(row: RemoteRow, remote: Remote, remoteId: string): Promise<boolean> {
    const { client, store, clock } = this.needs;
    const dueAt = clock.now() + 2 * stepMsOf(remote);
    if (!(await store.move(row, { state: 'sending', dueAt, remoteId, remote }))) return false;
    const path = `/retry/${remoteId}`;
    const answer = await client.call(remote, { method: 'POST', path, key: row.attemptId });
    if (answer.type === 'ok') await this.isThere(row, remoteId);
    else if (answer.type !== 'refused') await this.sendLater(row, answer);
    else return isAboutKey(answer) || this.isIdleThere(row, remote, remoteId);
    return false;
  }

  /** A refused retry may be the echo of one that was taken: a new run beside it would be a double. */
  private async isIdleThere(row: RemoteRow, remote: Remote, remoteId: string): Promise<boolean> {
    const path = `/status/${remoteId}`;
    const answer = await this.needs.client.call(remote, { method: 'GET', path });
    if (answer.type === 'refused') return true;
    if (answer.type !== 'ok') await this.askLater(row, answer);
    else if (idleWords.includes(answer.body.status)) return true;
    else await this.isThere(row, remoteId);
    return false;
  }

  /** A remote without keys still shows whether the job is as it was before it was told to run again. */
  private async look(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, finish } = this.needs;
    const path = `/status/${row.remoteId}`;
    const answer = await client.call(remote, { method: 'GET', path });
    if (answer.type === 'refused' && !isAboutKey(answer)) return finish(row, forgotten(answer));
    if (answer.type !== 'ok') return this.askLater(row, answer);
    const before = await this.endBefore(remote, job);
    const now = endThere(row.remoteId!, remote, answer.body);
    if (before === undefined || JSON.stringify(before) !== JSON.stringify(now))
      return this.isThere(row, row.remoteId!);
    if (row.tries >= looksMax) return finish(row, unknownFate(remote));
    await this.askLater(row, { type: 'unanswered', message: 'as before' });
  }

  private async isThere(row: RemoteRow, remoteId: string): Promise<void> {
    const { store, clock } = this.needs;
    const dueAt = clock.now() + soonMs;
    // Cancelled while it was on its way: now it is known what is to be stopped there.
    if (!(await store.move(row, { state: 'sent', remoteId, dueAt, tries: 0 })))
      await store.learn(row.attemptId, remoteId);
  }

  private async sendLater(row: RemoteRow, answer: RemoteAnswer): Promise<void> {
    const { store, clock } = this.needs;
    const now = clock.now();
    if (answer.type === 'later')
      await store.move(row, { state: 'intent', dueAt: now + answer.waitMs });
    else await store.move(row, { state: 'unsure', dueAt: now + soonMs });
  }

  private async askLater(row: RemoteRow, answer: RemoteAnswer): Promise<void> {
    const { store, clock } = this.needs;
    const tries = row.tries + 1;
    const waitMs = answer.type === 'later' ? answer.waitMs : delayOf(tries);
    await store.move(row, { state: 'unsure', dueAt: clock.now() + waitMs, tries });
  }

  /** How the attempt before this one ended at this very remote; only those the remote would run again. */
  private async endBefore(remote: Remote, job: Job): Promise<EndThere | undefined> {
    if (job.attempt === 1) return undefined;
    const last = (await this.needs.jobs.ledger.attempts(job.id)).at(-1);
    const end = last?.facts.remote as EndThere | undefined;
    if (!end || end.at !== addressOf(remote)) return undefined;
    return end.status === 'FAILED' || end.status === 'TIMED_OUT' ? end : undefined;
  }

  private requestBody(remote: Remote, job: Job): Record<string, unknown> {
    const { input, s3Config, policy } = job.input as JobInput;
    const webhook = this.needs.callbackOf(remote, job.attemptId);
    const ttl =
      job.expiresAt === null
        ? {}
        : { ttl: Math.max(job.expiresAt - this.needs.clock.now(), 10_000) };
    return {
      input: input === undefined ? {} : input,
      policy: { ...policy, ...ttl },
      ...(s3Config === undefined ? {} : { s3Config }),
      ...(webhook === undefined ? {} : { webhook }),
    };
  }
}

function refusal(answer: { status: number; message: string }, { keyEnv }: Remote): Outcome {
  const hint = isAboutKey(answer)
    ? `Put a key that it takes into ${keyEnv}; retry_job then sends it.`
    : undefined;
  return failure('remoteRefused', `The remote refused it: ${answer.message}`, hint);
}

function knowsKeys(body: Record<string, unknown>, { attemptId, remoteId }: RemoteRow): boolean {
  return body.idempotencyKey === attemptId && (remoteId === null || body.retryOf === remoteId);
}

const idleWords: unknown[] = ['FAILED', 'TIMED_OUT', 'CANCELLED'];

/** Another Errand answers by the key it was given; `retryOf` names the job that was to run again. */
export function questionOf(attemptId: string, retryOf: string | null): string {
  const more = retryOf === null ? '' : `&retryOf=${encodeURIComponent(retryOf)}`;
  return `/requests?idempotencyKey=${encodeURIComponent(attemptId)}${more}`;
}
