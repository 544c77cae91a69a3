// crawl_site and control of a crawl.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { decide } from '../../../jobs/decide.ts';
import { isRefused } from '../../../jobs/decision.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { ownJob, visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { crawlOptions, type CrawlOptions } from '../crawl/options.ts';
import { compilePatterns } from '../crawl/patterns.ts';
import { parseUrl } from '../crawl/url.ts';
import type { Services } from '../services.ts';
import { withoutSecrets } from '../webhooks.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { crawlOf } from './crawl-job.ts';
import { readPages } from './read-pages.ts';
import { common, submit, webJobs } from './run.ts';
import { checkSelectors } from './selectors.ts';
import { crawlWords } from './terminal.ts';

export function crawlOperations(services: Services): Operation[] {
  return [crawlSite(services), readPages(services), controlCrawl(services)];
}

const crawlAnswer = z.looseObject({
  jobId: z.string(),
  status: z.string(),
  next: z.string(),
});

function crawlSite(services: Services): Operation {
  return defineOperation({
    name: 'crawl_site',
    title: 'Crawl site',
    description:
      'Reads a web site as a job: follows links and sitemaps from `url`, politely, and keeps the markdown of at most maxPages pages. ' +
      'Use it for more than a few pages; not for one page (read_page). Answers at once: follow with wait_for_jobs, read with read_pages (toolset web; `errand pages` in a shell), also while it runs.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: webJobs,
    toolsets: ['default', 'web'],
    input: crawlOptions.extend(common),
    rareInput,
    output: crawlAnswer,
    http: { method: 'POST', path: '/api/web/crawls' },
    cli: { words: ['crawl'], args: ['url'], allowsPrivate: true, ...crawlWords },
    startsJob: ({ jobId: id, status }) => (isFinal(status as Job['status']) ? undefined : id),
    answerFor: async (id, { caller }) => {
      const job = await visibleJob(services.jobs, id, caller);
      return job.kind === 'web' && job.action === 'crawl' ? answerOf(job) : undefined;
    },
    text: (output) => `${output.jobId} ${output.status}. ${output.next}`,
    run: async ({ name, tags, idempotencyKey, labels, ...options }, context) => {
      await checkOptions(options, services, context.caller!.owner);
      const { webhook } = options;
      const wish = {
        action: 'crawl',
        input: webhook ? { ...options, webhook: withoutSecrets(webhook) } : options,
        name,
        tags,
        idempotencyKey,
        webhook,
        labels,
      } as const;
      const job = await submit(services, context, wish);
      return answerOf(job);
    },
  });
}

/** Counts and stop reason of an ended crawl; of a running one only where it is read. */
function answerOf(job: Job): z.infer<typeof crawlAnswer> {
  const { id, status, error, result } = job;
  if (!isFinal(status))
    return { jobId: id, status, next: 'Follow with wait_for_jobs, read with read_pages.' };
  const told = { ...(result as object | null), ...(error ? { error } : {}) };
  return { ...told, jobId: id, status, next: 'Read the pages with read_pages.' };
}

/** Shown by name only: models rarely need them, and the tool list stands in every conversation. */
const rareInput = [
  'formats', 'urls', 'patternsOn', 'scope', 'render', 'actions', 'schema', 'compareWith', 'subdomains', 'externalLinks', 'query', 'sitemap', 'robots', 'delayMs', 'concurrency', 'hostConcurrency',
  'pathBudgets', 'similarPagesMax', 'timeMsMax', 'bytesMax', 'creditsMax', 'headers', 'webhook', 'selectors',
  'pageTimeoutMs', 'linkSelectors', 'onlyMainContent', 'includeSelectors', 'excludeSelectors', 'includeImages', 'includeLinks',
  'name', 'tags', 'idempotencyKey', 'labels',
]; // prettier-ignore

/** What can be known to be wrong is said now, not by a failed job. */
async function checkOptions(
  options: z.infer<typeof crawlOptions>,
  { store, reader }: Services,
  owner: string,
): Promise<void> {
  const starts = [options.url, ...(options.urls ?? [])].filter((url) => url !== undefined);
  if (starts.length === 0) {
    throw new AppError('invalidInput', 'A crawl needs a start.', { hint: 'Give `url` or `urls`.' });
  }
  for (const start of starts) {
    const { username, password } = parseUrl(start);
    if (username === '' && password === '') continue;
    throw new AppError('invalidInput', 'A start cannot have name and password in it.', {
      hint: 'Addresses are shown; give headers: {"authorization": "Basic …"} instead.',
    });
  }
  compilePatterns([...(options.include ?? []), ...(options.exclude ?? [])]);
  checkHeaders(options.headers ?? {});
  if (options.selectors && !options.schema) {
    throw new AppError('invalidInput', 'Selectors fill the fields of a schema.', {
      hint: 'Give `schema` too, or includeSelectors for parts of the page.',
    });
  }
  const { includeSelectors = [], excludeSelectors = [], linkSelectors = [] } = options;
  const parts = [...includeSelectors, ...excludeSelectors, ...linkSelectors];
  await checkSelectors(parts, options.selectors);
  const odd = Object.keys(options.pathBudgets ?? {}).find((prefix) => !prefix.startsWith('/'));
  if (odd !== undefined) {
    throw new AppError('invalidInput', `No path begins with "${odd}" (pathBudgets).`, {
      hint: `Write "/${odd}".`,
    });
  }
  if (options.schema) await reader.check(options.schema);
  if (options.compareWith === undefined) return;
  const earlier = await store.find(options.compareWith);
  if (earlier?.owner !== owner) {
    throw new AppError('notFound', `There is no earlier crawl ${options.compareWith}.`, {
      hint: 'list_jobs with kind ["web"] shows crawls; give the id of one that has run.',
    });
  }
}

/** How a request is sent is not the caller's to say. */
const ownHeaders =
  /^(?:host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|expect)$/i;
const headerName = /^[\w!#$%&'*+.^`|~-]+$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

function checkHeaders(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers))
    if (!headerName.test(name) || !headerValue.test(value))
      throw new AppError('invalidInput', `Not a header: ${JSON.stringify(name)}.`, {
        hint: 'A name has no spaces; a value is one line without characters beyond Latin-1.',
      });
  const own = Object.keys(headers).find((name) => ownHeaders.test(name));
  if (own !== undefined) {
    throw new AppError('invalidInput', `The header ${own} cannot be set.`, {
      hint: 'It follows from the address and the connection: leave it out.',
    });
  }
}

function controlCrawl(services: Services): Operation {
  return defineOperation({
    name: 'control_crawl',
    title: 'Control crawl',
    description:
      'Pauses a running crawl (it keeps all it has), resumes it, or (retryFailed) opens an ended crawl again to fetch only the pages that failed and what was left when it stopped. To end it use cancel_job.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['crawl'],
    at: 'attempt',
    input: z.strictObject({ id: jobId, action: z.enum(['pause', 'resume', 'retryFailed']) }),
    output: z.object({ jobId: z.string(), status: z.string(), paused: z.boolean() }),
    http: { method: 'POST', path: '/api/web/crawls/{id}/control' },
    cli: [
      crawlCommand('pause', 'pause', 'stop a crawl for now; it keeps all it has'),
      crawlCommand('resume', 'resume', 'go on with a paused crawl'),
      crawlCommand(
        'retry',
        'retryFailed',
        'fetch the failed pages of an ended crawl, and what was left',
      ),
    ],
    text: ({ jobId: id, status, paused }) => `${id} ${paused ? 'paused' : status}`,
    run: async ({ id, action }, { caller }) => {
      const job = await ownJob(services.jobs, id, caller);
      await crawlOf(job, services);
      if (action === 'retryFailed') {
        const again = await retryFailed(job, caller!.owner, services);
        return { jobId: id, status: again.status, paused: false };
      }
      if (isFinal(job.status)) {
        throw new AppError(
          'wrongState',
          `The crawl is ${job.status}: there is nothing to ${action}.`,
        );
      }
      const row = await services.store.open(id, job.owner, services.clock.now());
      await services.store.setPaused(row.crawl, action === 'pause');
      services.running.get(id)?.setPaused(action === 'pause');
      return { jobId: id, status: job.status, paused: action === 'pause' };
    },
  });
}

const crawlCommand = (word: string, action: string, summary: string) => ({
  words: ['crawl', word],
  args: ['id'],
  preset: { action },
  summary,
});

/** A completed crawl may have failed pages too: it is opened again as a failed one would be. */
async function retryFailed(job: Job, by: string, services: Services): Promise<Job> {
  const { jobs, clock } = services;
  if (!isFinal(job.status)) {
    throw new AppError('wrongState', 'The crawl still runs.', {
      hint: 'Wait for its end, or cancel it first.',
    });
  }
  const { maxPages } = job.input as CrawlOptions;
  const { pages = 0 } = (job.result ?? {}) as { pages?: number };
  if (pages >= maxPages) {
    throw new AppError('wrongState', `The crawl has all of its ${maxPages} pages (maxPages).`, {
      hint: 'Crawl again with a larger maxPages, or read single pages with read_page.',
    });
  }
  return jobs.change(job.id, (present) => {
    const verdict = decide({ ...present, status: 'failed' }, { type: 'retry', by }, clock.now());
    return isRefused(verdict) ? undefined : verdict;
  });
}
