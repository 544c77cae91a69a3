// What stands for a job where an id is expected: an id, `@last`, a name, or the beginning of an id. Resolved with the
// caller's rights: a job that the caller does not own, or that is outside the limits of the key, is never found this way
// and changes nothing about what is found.
import { AppError } from '../errors.ts';
import type { Caller } from '../operation.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import { limitFilter } from './limits.ts';
import { isOwn } from './view.ts';
import { unknownJob } from './dependencies.ts';

const lastJob = '@last';
/** Shorter beginnings match by accident. */
const prefixCharsMin = 4;
const prefixForm = /^(?:job_)?([0-9a-hjkmnp-tv-z]{1,16})$/;
const candidatesMax = 10;
/** Jobs of one name or prefix that are looked at; the error for more than one says how many. */
const matchesMax = 50;

type Page = (before: { before?: number }) => Promise<{ jobs: Job[]; next: number | undefined }>;

export class JobReferences {
  private readonly jobs: Jobs;

  constructor(jobs: Jobs) {
    this.jobs = jobs;
  }

  /** The id of the one job that is meant. Without a caller only ids name jobs: the text is left to the operation. */
  async resolve(text: string, caller: Caller | undefined): Promise<string> {
    if (!caller || (await this.jobs.ledger.find(text))) return text;
    if (text === lastJob) return (await this.last(caller)).id;
    const named = await this.named(text, caller);
    if (named.length > 0) return oneOf(text, 'are named', named).id;
    const begun = await this.beginning(text, caller);
    if (begun.length > 0) return oneOf(text, 'begin with', begun).id;
    throw unknownJob(text);
  }

  private async last(caller: Caller): Promise<Job> {
    const { owner } = caller;
    const [own] = await this.matching({ owner }, caller, 1);
    if (own) return own;
    throw new AppError('notFound', 'You have no job yet, so @last is none.', {
      hint: 'run_command starts one; list_jobs shows the jobs you can see.',
    });
  }

  /** The caller's own; those of others only for an admin who has none of that name. Open ones hide ended ones. */
  private async named(name: string, caller: Caller): Promise<Job[]> {
    let found = await this.matching({ owner: caller.owner, name }, caller, matchesMax);
    if (found.length === 0 && caller.admin)
      found = await this.matching({ name }, caller, matchesMax);
    const open = found.filter(({ status }) => !isFinal(status));
    return open.length > 0 ? open : found;
  }

  private async beginning(text: string, caller: Caller): Promise<Job[]> {
    const start = prefixForm.exec(text.toLowerCase())?.[1];
    if (start === undefined || start.length < prefixCharsMin) return [];
    const { ledger } = this.jobs;
    const page: Page = (before) =>
      ledger.findByPrefix(`job_${start}`, { limit: matchesMax, ...before });
    return this.owned(page, caller, matchesMax);
  }

  private matching(filter: JobFilter, caller: Caller, max: number): Promise<Job[]> {
    const within = { ...filter, ...limitFilter(this.jobs, caller) };
    const page: Page = (before) => this.jobs.ledger.list(within, { limit: matchesMax, ...before });
    return this.owned(page, caller, max);
  }

  /** The newest jobs of the pages that the caller owns, at most `max`. */
  private async owned(page: Page, caller: Caller, max: number): Promise<Job[]> {
    const found: Job[] = [];
    let next: number | undefined;
    do {
      const some = await page(next === undefined ? {} : { before: next });
      const own = await Promise.all(some.jobs.map((job) => isOwn(this.jobs, job, caller)));
      found.push(...some.jobs.filter((_, i) => own[i]));
      ({ next } = some);
    } while (next !== undefined && found.length < max);
    return found.slice(0, max);
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
