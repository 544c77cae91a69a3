// The web kind: one job per action, each run by its own function. A crawl goes on where it was after a restart; the
// other actions only read and begin again, except browse, which may have changed something out there.
import { rm } from 'node:fs/promises';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Kind, Outcome, Run, Words } from '../../jobs/kind.ts';
import { aborted } from '../../runtime/clock.ts';
import { runCrawl } from './actions/crawl.ts';
import { summary } from './crawl/summary.ts';
import { actionInputs, type Action } from './actions/inputs.ts';
import { mapAction } from './actions/map.ts';
import {
  browseAction,
  extractAction,
  readAction,
  screenshotAction,
  submissionAction,
} from './actions/pages.ts';
import { agentAction, pipelineAction } from './actions/research.ts';
import { searchAction } from './actions/search.ts';
import { rerun } from './operations/run.ts';
import { pictureFolder } from './browser/pictures.ts';
import { allowedOf, withPrivate } from './private.ts';
import type { Services } from './services.ts';
import { priceOf } from './usage/prices.ts';

export function createWebKind(services: Services): Kind {
  return {
    name: 'web',
    allows: 'fetch web pages from this machine, drive its browser, and spend web credits',
    dispatched: true,
    retryable: true,
    cancellable: true,
    adopts: true,
    repeatsLostOnly: true,
    capacity: () => services.settings.jobsMax,
    run: (run) => withPrivate(services, allowedOf(run.job).allowed, (own) => runAction(run, own)),
    view: (job) => view(job, services),
    words: crawlWords,
    summary: (job) => summaryOf(job),
    folder: (jobId) => pictureFolder(services.folder, jobId),
    forget: (jobIds) => forget(jobIds, services),
    rerun: (job, context) => rerun(services, context, job),
  };
}

async function runAction(run: Run, services: Services): Promise<Outcome> {
  // What an earlier server kept for it and never used; and in the end what this one did not.
  await release(run, services);
  try {
    return await outcomeOf(run, services);
  } finally {
    const isLeft = ['shutdown', 'lost'].includes(run.signal.reason as string);
    if (!isLeft) await release(run, services);
  }
}

/** Credits that cannot be given back now are free again after a while. */
async function release({ job }: Run, { usage, log }: Services): Promise<void> {
  try {
    await usage.release(job.id);
  } catch (error) {
    log.warn('kept credits could not be given back', { jobId: job.id, error });
  }
}

async function outcomeOf(run: Run, services: Services): Promise<Outcome> {
  try {
    const outcome = await attempt(run, services);
    if (outcome.type === 'lost') await aborted(run.signal);
    return outcome;
  } catch (error) {
    // The parts it works with end before it is told to: its error is then no fact about the work.
    if (services.ending.now) await aborted(run.signal);
    if (!run.signal.aborted) throw error;
    const reason = run.signal.reason as string;
    if (reason === 'cancel') return { type: 'cancelled' };
    if (reason === 'timeout') return { type: 'timed_out' };
    return { type: 'lost' };
  }
}

async function attempt(run: Run, services: Services): Promise<Outcome> {
  const action = run.job.action as Action;
  const parsed = actionInputs[action].safeParse(allowedOf(run.job).input);
  if (!parsed.success) {
    throw new AppError(
      'invalidInput',
      `The input of this ${action} cannot be used: ${parsed.error.message.slice(0, 300)}`,
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
          'The server ended while the browser worked; what it did is not known.',
          {
            hint: 'Look at the page, then start it again if it is safe to.',
          },
        );
      }
      return completed(await browseAction(run, input, services));
  }
}

/** Jobs of several steps keep credits for each of them. */
const stepwise: ReadonlySet<string> = new Set<Action>(['crawl', 'pipeline', 'agent']);

/** It could be paid for when it was submitted; others may have spent it meanwhile. */
async function keepCredits({ job }: Run, credits: number, { usage }: Services): Promise<void> {
  if (stepwise.has(job.action!) || (await usage.hold(job, credits))) return;
  throw await usage.exhausted(job.owner, credits);
}

const completed = (result: { creditsUsed?: number }): Outcome => ({
  type: 'completed',
  result,
  cost: result.creditsUsed ?? 0,
});

async function view(job: Job, { store }: Services): Promise<Record<string, unknown>> {
  if (job.action === 'crawl') {
    const row = await store.find(job.id);
    if (!row) return {};
    const counts = summary(await store.counts(row.crawl));
    const { stopReason, warnings } = row.state;
    // The result of an ended crawl says the same; while it runs, this is how far it is.
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

/** How far a crawl is: its addresses by fate, and what it warns of. */
function crawlWords({ fates = {}, warnings = [] }: Record<string, unknown>): Words {
  const counts = Object.entries(fates as Record<string, number>).map(([fate, n]) => `${n} ${fate}`);
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
  { store, pages, reads, steps, folder }: Services,
): Promise<void> {
  for (const id of jobIds) {
    const row = await store.find(id);
    if (row) await pages.forget(row.crawl);
    await rm(pictureFolder(folder, id), { recursive: true, force: true });
  }
  await reads.forget(jobIds);
  await steps.forget(jobIds);
  await store.forget(jobIds);
}
