// Sends an attempt to a remote exactly once: a row is stored before anything is sent, and without a response the
// remote is queried before anything is sent again. A job that failed there is retried with the remote's own retry.
import type { Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { JobInput } from '../jobs/submitter.ts';
import type { Remote } from '../spec.ts';
import type { RemoteResult, RemoteClient } from './client.ts';
import {
  addressOf,
  toRemoteEnd,
  failure,
  forgotten,
  endedWithoutResult,
  hasFailed,
  isAboutKey,
  submitUnknown,
  type RemoteEnd,
} from './outcome.ts';
import { delayOf, soonMs, stepMsOf } from './pace.ts';
import type { RemoteRow, RemoteStore } from '../store/remote-jobs.ts';

interface SenderDeps {
  jobs: Jobs;
  store: RemoteStore;
  client: RemoteClient;
  clock: Clock;
  /** Returns the URL that the remote calls when the job has changed; undefined if it cannot reach this server. */
  callbackOf(remote: Remote, attemptId: string): string | undefined;
  finish(row: RemoteRow, outcome: Outcome): Promise<void>;
}

/** How often a remote without keys is polled before a retry without a response counts as unknown. */
const maxLooks = 4;

export class Sender {
  private readonly deps: SenderDeps;

  constructor(deps: SenderDeps) {
    this.deps = deps;
  }

  async send(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const before = await this.previousEnd(remote, job);
    if (before && !(await this.sendRetry(row, remote, before.id))) return;
    await this.sendRun(row, remote, job);
  }

  /** The job was sent, but no response came: queries the remote before anything is sent again. */
  async ask(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock, finish } = this.deps;
    const { attemptId, remoteId } = row;
    if (!(await store.move(row, { state: 'unsure', dueAt: clock.now() + stepMsOf(remote) })))
      return;
    const path = requestsPath(attemptId, remoteId);
    const result = await client.call(remote, { method: 'GET', path });
    const isRefused = result.type === 'refused' && !isAboutKey(result);
    if (result.type !== 'ok' && !isRefused) return this.askLater(row, result);
    // Only a remote that supports keys can confirm that it does not have the job.
    if (result.type !== 'ok' || !knowsKeys(result.body, row))
      return remoteId === null
        ? finish(row, submitUnknown(remote))
        : this.compareStatus(row, remote, job);
    const [found] = (result.body.requests ?? []) as { id?: string }[];
    const dueAt = clock.now();
    await store.move(
      row,
      found?.id === undefined
        ? { state: 'intent', dueAt, remoteId: null }
        : { state: 'sent', remoteId: found.id, dueAt, tries: 0 },
    );
  }

  private async sendRun(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, store, clock, finish } = this.deps;
    const dueAt = clock.now() + stepMsOf(remote);
    if (!(await store.move(row, { state: 'sending', dueAt, remoteId: null, remote }))) return;
    const result = await client.call(remote, {
      method: 'POST',
      path: '/run',
      body: this.requestBody(remote, job),
      key: row.attemptId,
    });
    if (result.type === 'ok' && typeof result.body.id === 'string')
      return this.markSent(row, result.body.id);
    if (result.type === 'refused') return finish(row, refusal(result, remote));
    await this.sendLater(row, result);
  }

  /** Returns true if the remote will not rerun that job, so that a new one must be sent. */
  private async sendRetry(row: RemoteRow, remote: Remote, remoteId: string): Promise<boolean> {
    const { client, store, clock } = this.deps;
    const dueAt = clock.now() + 2 * stepMsOf(remote);
    if (!(await store.move(row, { state: 'sending', dueAt, remoteId, remote }))) return false;
    const path = `/retry/${remoteId}`;
    const result = await client.call(remote, { method: 'POST', path, key: row.attemptId });
    if (result.type === 'ok') await this.markSent(row, remoteId);
    else if (result.type !== 'refused') await this.sendLater(row, result);
    else return isAboutKey(result) || this.canSendNew(row, remote, remoteId);
    return false;
  }

  /** A rejected retry may follow an earlier one that was accepted. A new run in addition would be a duplicate. */
  private async canSendNew(row: RemoteRow, remote: Remote, remoteId: string): Promise<boolean> {
    const path = `/status/${remoteId}`;
    const result = await this.deps.client.call(remote, { method: 'GET', path });
    if (result.type === 'refused') return true;
    if (result.type !== 'ok') await this.askLater(row, result);
    else if (endedWithoutResult(result.body.status)) return true;
    else await this.markSent(row, remoteId);
    return false;
  }

  /** Without keys, the status still shows whether the job has changed since the retry was sent. */
  private async compareStatus(row: RemoteRow, remote: Remote, job: Job): Promise<void> {
    const { client, finish } = this.deps;
    const path = `/status/${row.remoteId}`;
    const result = await client.call(remote, { method: 'GET', path });
    if (result.type === 'refused' && !isAboutKey(result)) return finish(row, forgotten(result));
    if (result.type !== 'ok') return this.askLater(row, result);
    const before = await this.previousEnd(remote, job);
    const now = toRemoteEnd(row.remoteId!, remote, result.body);
    if (before === undefined || JSON.stringify(before) !== JSON.stringify(now))
      return this.markSent(row, row.remoteId!);
    if (row.tries >= maxLooks) return finish(row, submitUnknown(remote));
    await this.askLater(row, { type: 'unanswered', message: 'as before' });
  }

  private async markSent(row: RemoteRow, remoteId: string): Promise<void> {
    const { store, clock } = this.deps;
    const dueAt = clock.now() + soonMs;
    // It was cancelled in the meantime. Now its id on the remote is known.
    if (!(await store.move(row, { state: 'sent', remoteId, dueAt, tries: 0 })))
      await store.saveRemoteId(row.attemptId, remoteId);
  }

  private async sendLater(row: RemoteRow, result: RemoteResult): Promise<void> {
    const { store, clock } = this.deps;
    const now = clock.now();
    if (result.type === 'later')
      await store.move(row, { state: 'intent', dueAt: now + result.waitMs });
    else await store.move(row, { state: 'unsure', dueAt: now + soonMs });
  }

  private async askLater(row: RemoteRow, result: RemoteResult): Promise<void> {
    const { store, clock } = this.deps;
    const tries = row.tries + 1;
    const waitMs = result.type === 'later' ? result.waitMs : delayOf(tries);
    await store.move(row, { state: 'unsure', dueAt: clock.now() + waitMs, tries });
  }

  /** How the previous attempt ended on this remote, if the remote would rerun it. */
  private async previousEnd(remote: Remote, job: Job): Promise<RemoteEnd | undefined> {
    if (job.attempt === 1) return undefined;
    const last = (await this.deps.jobs.ledger.attempts(job.id)).at(-1);
    const end = last?.facts.remote as RemoteEnd | undefined;
    if (!end || end.at !== addressOf(remote)) return undefined;
    return hasFailed(end.status) ? end : undefined;
  }

  private requestBody(remote: Remote, job: Job): Record<string, unknown> {
    const { input, s3Config, policy } = job.input as JobInput;
    const webhook = this.deps.callbackOf(remote, job.attemptId);
    const ttl =
      job.expiresAt === null
        ? {}
        : { ttl: Math.max(job.expiresAt - this.deps.clock.now(), 10_000) };
    return {
      input: input === undefined ? {} : input,
      policy: { ...policy, ...ttl },
      ...(s3Config === undefined ? {} : { s3Config }),
      ...(webhook === undefined ? {} : { webhook }),
    };
  }
}

function refusal(result: { status: number; message: string }, { keyEnv }: Remote): Outcome {
  const hint = isAboutKey(result)
    ? `Set ${keyEnv} to a valid key, then call retry_job.`
    : undefined;
  return failure('remoteRefused', `The remote rejected the job: ${result.message}`, hint);
}

function knowsKeys(body: Record<string, unknown>, { attemptId, remoteId }: RemoteRow): boolean {
  return body.idempotencyKey === attemptId && (remoteId === null || body.retryOf === remoteId);
}

/** Another Errand finds the job by its idempotency key. `retryOf` names the job that was to be rerun. */
export function requestsPath(attemptId: string, retryOf: string | null): string {
  const more = retryOf === null ? '' : `&retryOf=${encodeURIComponent(retryOf)}`;
  return `/requests?idempotencyKey=${encodeURIComponent(attemptId)}${more}`;
}
