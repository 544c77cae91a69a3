// The web kind: runs each job by its action. After a restart, a crawl continues where it stopped. Other actions only read,
// so they start again, except browse, which may have changed something on the site.
import { rm } from 'node:fs/promises';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Kind, Outcome, Run, KindText } from '../../jobs/kind.ts';
import { aborted } from '../../runtime/clock.ts';
import { runCrawl } from './jobs/crawl-job.ts';
import { summary } from './crawl/summary.ts';
import { actionInputs, type Action } from './jobs/inputs.ts';
import { mapAction } from './jobs/map-job.ts';
import {
  browseAction,
  extractAction,
  readAction,
  screenshotAction,
  submissionAction,
} from './jobs/page-jobs.ts';
import { agentAction, pipelineAction } from './jobs/research-jobs.ts';
import { searchAction } from './jobs/search-job.ts';
import { rerun } from './operations/run.ts';
import { pictureFolder } from './browser/pictures.ts';
import { allowedOf, withPrivate } from './private-addresses.ts';
import type { WebDeps } from './deps.ts';
import { priceOf } from './billing/prices.ts';
import { webhookFacts } from './webhooks.ts';

export function createWebKind(services: WebDeps): Kind {
  return {
    name: 'web',
    allows: 'fetch web pages from this machine, drive its browser, and spend web credits',
    dispatched: true,
    retryable: true,
    cancellable: true,
    adopts: true,
    repeatsLostOnly: true,
    capacity: () => services.settings.maxJobs,
    run: (run) => withPrivate(services, allowedOf(run.job).allowed, (own) => runAction(run, own)),
    view: (job) => view(job, services),
    webhookFacts: (job) => webhookFacts(job, services),
    describe: crawlWords,
    summary: (job) => summaryOf(job),
    folder: (jobId) => pictureFolder(services.folder, jobId),
    forget: (jobIds) => forget(jobIds, services),
    rerun: (job, context) => rerun(services, context, job),
  };
}

async function runAction(run: Run, services: WebDeps): Promise<Outcome> {
  // Releases credits that an earlier server reserved and did not spend, and at the end those of this run.
  await release(run, services);
  try {
    return await outcomeOf(run, services);
  } finally {
    const isLeft = ['shutdown', 'lost'].includes(run.signal.reason as string);
    if (!isLeft) await release(run, services);
  }
}

/** A reservation that cannot be released now expires after a while. */
async function release({ job }: Run, { usage, log }: WebDeps): Promise<void> {
  try {
    await usage.release(job.id);
  } catch (error) {
    log.warn('reserved credits could not be released; they expire later', { jobId: job.id, error });
  }
}

async function outcomeOf(run: Run, services: WebDeps): Promise<Outcome> {
  try {
    const outcome = await attempt(run, services);
    if (outcome.type === 'lost') await aborted(run.signal);
    return outcome;
  } catch (error) {
    // During shutdown, dependencies stop before this job is aborted. Errors that follow from that are ignored.
    if (services.ending.now) await aborted(run.signal);
    if (!run.signal.aborted) throw error;
    const reason = run.signal.reason as string;
    if (reason === 'cancel') return { type: 'cancelled' };
    if (reason === 'timeout') return { type: 'timed_out' };
    return { type: 'lost' };
  }
}

async function attempt(run: Run, services: WebDeps): Promise<Outcome> {
  const action = run.job.action as Action;
  const parsed = actionInputs[action].safeParse(allowedOf(run.job).input);
  if (!parsed.success) {
    throw new AppError(
      'invalidInput',
      `The stored input of this ${action} job is invalid: ${parsed.error.message.slice(0, 300)}`,
    );
  }
  const input = parsed.data as never;
  await keepCredits(run, priceOf(action, input), services);
  switch (action) {
    case 'crawl':
      return runCrawl(run, input, services);
    case 'pipeline':
      return pipelineAction(run, input, services);
    case 'agent':
      return agentAction(run, input, services);
    case 'map':
      return completed(await mapAction(run, input, services));
    case 'markdown':
      return completed(await readAction(run, input, services));
    case 'extract':
      return completed(await extractAction(run, input, services));
    case 'submission':
      return completed(await submissionAction(run, input));
    case 'screenshot':
      return completed(await screenshotAction(run, input, services));
    case 'search':
      return completed(await searchAction(run, input, services));
    case 'browse':
      if (run.adopted) {
        throw new AppError(
          'interrupted',
          'The server stopped while the browser was working. Its last actions are unknown.',
          {
            hint: 'Check the page, then start the job again if repeating the actions is safe.',
          },
        );
      }
      return completed(await browseAction(run, input, services));
  }
}

/** Jobs with several steps reserve credits for each step. */
const stepwise: ReadonlySet<string> = new Set<Action>(['crawl', 'pipeline', 'agent']);

/** Reserves the price again at the start, because other jobs may have spent the budget since the submit. */
async function keepCredits({ job }: Run, credits: number, { usage }: WebDeps): Promise<void> {
  if (stepwise.has(job.action!) || (await usage.reserve(job, credits))) return;
  throw await usage.exhausted(job.owner, credits);
}

const completed = (result: { creditsUsed?: number }): Outcome => ({
  type: 'completed',
  result,
  cost: result.creditsUsed ?? 0,
});

async function view(job: Job, { store }: WebDeps): Promise<Record<string, unknown>> {
  if (job.action === 'crawl') {
    const row = await store.find(job.id);
    if (!row) return {};
    const counts = summary(await store.counts(row.crawl));
    const { stopReason, warnings } = row.state;
    // An ended crawl has these counts in its result.
    const now = isFinal(job.status)
      ? {}
      : { ...counts, bytes: row.bytes, creditsUsed: row.credits };
    return {
      ...now,
      ...(row.paused && !isFinal(job.status) ? { paused: true } : {}),
      ...(stopReason === undefined || !isFinal(job.status) ? {} : { stopReason }),
      ...(warnings.length > 0 && !isFinal(job.status) ? { warnings } : {}),
    };
  }
  return !isFinal(job.status) && job.facts.steps ? { steps: job.facts.steps } : {};
}

/** A crawl's counts by outcome, and its warnings. */
function crawlWords({ outcomes = {}, warnings = [] }: Record<string, unknown>): KindText {
  const counts = Object.entries(outcomes as Record<string, number>).map(
    ([outcome, n]) => `${n} ${outcome}`,
  );
  return { facts: [...counts, ...(warnings as string[])] };
}

function summaryOf(job: Job): string {
  const input = job.input as Record<string, unknown> | null;
  const urls = Array.isArray(input?.urls) ? (input.urls as string[]) : [];
  const what = input?.url ?? input?.query ?? input?.prompt ?? urls[0] ?? input?.extractionId ?? '';
  return `${job.action} ${String(what)}${urls.length > 1 ? ` and ${urls.length - 1} more` : ''}`;
}

async function forget(
  jobIds: readonly string[],
  { store, pages, reads, steps, usage, folder }: WebDeps,
): Promise<void> {
  for (const id of jobIds) {
    const row = await store.find(id);
    if (row) await pages.forget(row.crawl);
    await rm(pictureFolder(folder, id), { recursive: true, force: true });
  }
  await reads.forget(jobIds);
  await steps.forget(jobIds);
  await usage.forget(jobIds);
  await store.forget(jobIds);
}
