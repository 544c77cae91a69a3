// Resolves job references: an id, `@last`, a name or an id prefix. Resolution uses the caller's permissions: jobs that the
// caller does not own, or that are outside the limits of the key, never match and never affect the result.
import { AppError } from '../errors.ts';
import type { Caller } from '../operation.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import { limitFilter } from './limits.ts';
import { isOwn } from './view.ts';
import { unknownJob } from './dependencies.ts';
import { nameForOthers } from './submission.ts';

const lastJob = '@last';
/** Shorter prefixes match by accident. */
const minPrefixChars = 4;
const prefixForm = /^(?:job_)?([0-9a-hjkmnp-tv-z]{1,16})$/;
const maxCandidates = 10;
/** Most jobs examined for one name or prefix. The error for an ambiguous reference reports how many matched. */
const maxMatches = 50;

/** What the caller may have meant. Undefined for something that looks like a complete id. */
function hintFor(text: string): string | undefined {
  if (text.startsWith('@')) return `${lastJob} is the newest job.`;
  const prefix = prefixForm.exec(text.toLowerCase())?.[1];
  if (prefix?.length === 16) return undefined;
  if (prefix !== undefined && prefix.length < minPrefixChars)
    return `An id prefix needs at least ${minPrefixChars} characters after job_; names must be complete.`;
  return `Use a complete name, an id or the beginning of one, or ${lastJob}.`;
}

type Page = (before: { before?: number }) => Promise<{ jobs: Job[]; next: number | undefined }>;

export class JobReferences {
  private readonly jobs: Jobs;

  constructor(jobs: Jobs) {
    this.jobs = jobs;
  }

  /** The id of the referenced job. Without a caller only ids are valid, and the operation checks them. */
  async resolve(text: string, caller: Caller | undefined): Promise<string> {
    if (!caller || (await this.jobs.ledger.find(text))) return text;
    if (text === lastJob) return (await this.last(caller)).id;
    const named = await this.named(text, caller);
    if (named.length > 0) return this.oneOf(text, 'are named', named).id;
    const begun = await this.beginning(text, caller);
    if (begun.length > 0) return this.oneOf(text, 'begin with', begun).id;
    throw unknownJob(text, hintFor(text));
  }

  private async last(caller: Caller): Promise<Job> {
    const { owner } = caller;
    const [own] = await this.matching({ owner }, caller, 1);
    if (own) return own;
    throw new AppError('notFound', 'You have no job yet, so @last refers to none.', {
      hint: 'Start one with run_command. list_jobs shows the jobs you can see.',
    });
  }

  /** Matches the caller's own jobs; for an admin without a match, all jobs. Jobs that have not ended take precedence. */
  private async named(name: string, caller: Caller): Promise<Job[]> {
    let found = await this.matching({ owner: caller.owner, name }, caller, maxMatches);
    if (found.length === 0 && caller.admin)
      found = await this.matching({ name }, caller, maxMatches);
    const open = found.filter(({ status }) => !isFinal(status));
    return open.length > 0 ? open : found;
  }

  private async beginning(text: string, caller: Caller): Promise<Job[]> {
    const start = prefixForm.exec(text.toLowerCase())?.[1];
    if (start === undefined || start.length < minPrefixChars) return [];
    const { ledger } = this.jobs;
    const page: Page = (before) =>
      ledger.findByPrefix(`job_${start}`, { limit: maxMatches, ...before });
    return this.owned(page, caller, maxMatches);
  }

  private matching(filter: JobFilter, caller: Caller, max: number): Promise<Job[]> {
    const within = { ...filter, ...limitFilter(this.jobs, caller) };
    const page: Page = (before) => this.jobs.ledger.list(within, { limit: maxMatches, ...before });
    return this.owned(page, caller, max);
  }

  /** Reads pages until `max` jobs of the caller are found, newest first. */
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

  private oneOf(text: string, relation: string, found: Job[]): Job {
    const [first, ...more] = found;
    if (more.length === 0) return first!;
    const shown = found.slice(0, maxCandidates).map((job) => ({
      id: job.id,
      ...nameForOthers(this.jobs.findKind(job.kind), job),
      status: job.status,
    }));
    const lines = shown.map(
      ({ id, status, name }) => `${id} (${name ? `${name}, ` : ''}${status})`,
    );
    const rest = found.length > shown.length ? ' and more' : '';
    const message = `${found.length} jobs ${relation} ${text}, so the reference is ambiguous.`;
    throw new AppError('conflict', message, {
      hint: `Use one of these ids: ${lines.join(', ')}${rest}.`,
      data: { candidates: shown },
    });
  }
}
