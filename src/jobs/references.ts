// What stands for a job where an id is expected: an id, `@last`, a name, or the beginning of an id. Resolved with the
// caller's rights: a job that the caller does not own is never found this way.
import { AppError } from '../errors.ts';
import type { Caller } from '../operation.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { isOwn } from './view.ts';
import { unknownJob } from './dependencies.ts';

const lastJob = '@last';
/** Shorter beginnings match by accident. */
const prefixCharsMin = 4;
const prefixForm = /^(?:job_)?([0-9a-hjkmnp-tv-z]{1,16})$/;
const candidatesMax = 10;
/** Newest jobs that are looked at for one the caller owns, where a key is limited. */
const lastLookMax = 50;

export class JobReferences {
  private readonly jobs: Jobs;

  constructor(jobs: Jobs) {
    this.jobs = jobs;
  }

  /** The id of the one job that is meant. */
  async resolve(text: string, caller: Caller | undefined): Promise<string> {
    if (await this.jobs.ledger.find(text)) return text;
    if (!caller) throw unknownJob(text);
    if (text === lastJob) return (await this.last(caller)).id;
    const named = await this.named(text, caller);
    if (named.length > 0) return oneOf(text, 'are named', named).id;
    const begun = await this.beginning(text, caller);
    if (begun.length > 0) return oneOf(text, 'begin with', begun).id;
    throw unknownJob(text);
  }

  private async last(caller: Caller): Promise<Job> {
    const { owner } = caller;
    const { jobs } = await this.jobs.ledger.list({ owner }, { limit: lastLookMax });
    const [own] = await this.owned(jobs, caller);
    if (own) return own;
    throw new AppError('notFound', 'You have no job yet, so @last is none.', {
      hint: 'run_command starts one; list_jobs shows the jobs you can see.',
    });
  }

  /** The caller's own; those of others only for an admin who has none of that name. Open ones hide ended ones. */
  private async named(name: string, caller: Caller): Promise<Job[]> {
    const find = async (filter: { owner?: string }) =>
      (await this.jobs.ledger.list({ ...filter, name }, { limit: lastLookMax })).jobs;
    let found = await this.owned(await find({ owner: caller.owner }), caller);
    if (found.length === 0 && caller.admin) found = await this.owned(await find({}), caller);
    const open = found.filter(({ status }) => !isFinal(status));
    return open.length > 0 ? open : found;
  }

  private async beginning(text: string, caller: Caller): Promise<Job[]> {
    const start = prefixForm.exec(text.toLowerCase())?.[1];
    if (start === undefined || start.length < prefixCharsMin) return [];
    const found = await this.jobs.ledger.findByPrefix(`job_${start}`, lastLookMax);
    return this.owned(found, caller);
  }

  private async owned(found: readonly Job[], caller: Caller): Promise<Job[]> {
    const own = await Promise.all(found.map((job) => isOwn(this.jobs, job, caller)));
    return found.filter((_, i) => own[i]);
  }
}

function oneOf(text: string, relation: string, found: Job[]): Job {
  const [first, ...more] = found;
  if (more.length === 0) return first!;
  const shown = found.slice(0, candidatesMax);
  const lines = shown.map(({ id, status, name }) => `${id} (${name ? `${name}, ` : ''}${status})`);
  const rest = found.length > shown.length ? ' and more' : '';
  throw new AppError('conflict', `${found.length} jobs ${relation} ${text}, so it is ambiguous.`, {
    hint: `Use one of these ids: ${lines.join(', ')}${rest}.`,
    data: { candidates: shown.map(({ id, name, status }) => ({ id, name, status })) },
  });
}
