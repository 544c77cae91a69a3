// The operations crawl_site and control_crawl.
import { z } from 'zod';
import type { OutputOf } from '../../../contract.ts';
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { ownJob, visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import type { crawlOptions, CrawlOptions } from '../crawl/options.ts';
import { compilePatterns } from '../crawl/frontier/patterns.ts';
import * as contracts from '../contracts.ts';
import { parseUrl } from '../url.ts';
import type { WebDeps } from '../deps.ts';
import { withoutSecrets } from '../webhooks.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { crawlOf } from './find-crawl.ts';
import { readPages } from './read-pages.ts';
import { submit, webJobs } from './run.ts';
import { checkSelectors } from './selectors.ts';
import { crawlText } from './terminal.ts';

export function crawlOperations(services: WebDeps): Operation[] {
  return [crawlSite(services), readPages(services), controlCrawl(services)];
}

function crawlSite(services: WebDeps): Operation {
  return defineOperation({
    ...contracts.crawlSite,
    title: 'Crawl site',
    description:
      'Crawls a website in the background and stores its pages as markdown; use it instead of curl or wget in a shell. ' +
      'Follows links and sitemaps from `url`, obeys robots.txt and limits its request rate. Use it for a site or a section; for a single page set maxPages: 1. For a page you need right now use read_page. ' +
      'Returns a job id immediately. Wait with wait_for_jobs. Read pages with read_pages, even while it runs. Stop it with cancel_job.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: webJobs,
    toolsets: ['default', 'web'],
    rareInput,
    unlistedInput,
    http: { method: 'POST', path: '/api/web/crawls' },
    cli: { words: ['crawl'], args: ['url'], allowsPrivate: true, ...crawlText },
    startsJob: ({ id, status }) => (isFinal(status as Job['status']) ? undefined : id),
    outputFor: async (id, { caller }) => {
      const job = await visibleJob(services.jobs, id, caller);
      return job.kind === 'web' && job.action === 'crawl' ? toResponse(job) : undefined;
    },
    text: (output) => `${output.id} ${output.status}. ${output.next}`,
    run: async ({ name, tags, idempotencyKey, labels, ...options }, context) => {
      await checkOptions(options, services, context.caller!.owner);
      const { webhook } = options;
      const request = {
        action: 'crawl',
        input: webhook ? { ...options, webhook: withoutSecrets(webhook) } : options,
        name,
        tags,
        idempotencyKey,
        webhook,
        labels,
      } as const;
      const job = await submit(services, context, request);
      return toResponse(job);
    },
  });
}

/** An ended crawl returns its counts and stop reason, a running one how to follow it. */
function toResponse(job: Job): OutputOf<typeof contracts.crawlSite> {
  const { id, status, error, result } = job;
  if (!isFinal(status))
    return { id, status, next: 'Follow with wait_for_jobs, read with read_pages.' };
  const summary = { ...(result as object | null), ...(error ? { error } : {}) };
  return { ...summary, id, status, next: 'Read the pages with read_pages.' };
}

const rareInput = [
  'urls (several starts)',
  'scope (path: only below the start)',
  'subdomains',
  'formats (of each page)',
  'render (auto: with a browser where needed)',
  'schema (data to extract)',
  'headers',
  'delayMs',
  'maxTimeMs',
  'name',
];
/** Not listed in the tool schema, which is part of every conversation. Documented in docs/web.md. */
const unlistedInput = [
  'patternsOn', 'startsMatch', 'externalLinks', 'query', 'sitemap', 'robots', 'actions', 'selectors', 'compareWith', 'onlyMainContent',
  'includeSelectors', 'excludeSelectors', 'linkSelectors', 'includeImages', 'includeLinks', 'concurrency', 'hostConcurrency',
  'pathBudgets', 'maxSimilarPages', 'maxBytes', 'maxCredits', 'pageTimeoutMs', 'webhook', 'tags', 'idempotencyKey', 'labels',
]; // prettier-ignore

/** Rejects invalid options now instead of with a failed job. */
async function checkOptions(
  options: z.infer<typeof crawlOptions>,
  { store, reader }: WebDeps,
  owner: string,
): Promise<void> {
  const starts = [options.url, ...(options.urls ?? [])].filter((url) => url !== undefined);
  if (starts.length === 0) {
    throw new AppError('invalidInput', 'A crawl needs a start URL.', {
      hint: 'Pass `url` or `urls`.',
    });
  }
  for (const start of starts) {
    const { username, password } = parseUrl(start);
    if (username === '' && password === '') continue;
    throw new AppError('invalidInput', 'Start URLs must not contain credentials.', {
      hint: 'URLs are visible in results. Pass headers: {"authorization": "Basic …"} instead.',
    });
  }
  compilePatterns([...(options.include ?? []), ...(options.exclude ?? [])]);
  checkHeaders(options.headers ?? {});
  if (options.selectors && !options.schema) {
    throw new AppError('invalidInput', '`selectors` requires `schema`.', {
      hint: 'Pass `schema` as well, or use includeSelectors for parts of the page.',
    });
  }
  const { includeSelectors = [], excludeSelectors = [], linkSelectors = [] } = options;
  const parts = [...includeSelectors, ...excludeSelectors, ...linkSelectors];
  await checkSelectors(parts, options.selectors);
  const invalid = Object.keys(options.pathBudgets ?? {}).find((prefix) => !prefix.startsWith('/'));
  if (invalid !== undefined) {
    throw new AppError('invalidInput', `pathBudgets: "${invalid}" is not a path prefix.`, {
      hint: `Use "/${invalid}".`,
    });
  }
  if (options.schema) await reader.check(options.schema);
  if (options.compareWith === undefined) return;
  const earlier = await store.find(options.compareWith);
  if (earlier?.owner !== owner) {
    throw new AppError('notFound', `Crawl ${options.compareWith} (compareWith) does not exist.`, {
      hint: 'Pass the id of an earlier crawl. list_jobs with kind ["web"] lists crawls.',
    });
  }
}

/** Headers that describe the connection cannot be set by callers. */
const reservedHeaders =
  /^(?:host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|expect)$/i;
const headerName = /^[\w!#$%&'*+.^`|~-]+$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

function checkHeaders(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers))
    if (!headerName.test(name) || !headerValue.test(value))
      throw new AppError('invalidInput', `Invalid header: ${JSON.stringify(name)}.`, {
        hint: 'A header name has no spaces, and a value is one line of Latin-1 characters.',
      });
  const reserved = Object.keys(headers).find((name) => reservedHeaders.test(name));
  if (reserved !== undefined) {
    throw new AppError('invalidInput', `The header ${reserved} cannot be set.`, {
      hint: 'Remove it: the connection determines this header.',
    });
  }
}

function controlCrawl(services: WebDeps): Operation {
  return defineOperation({
    name: 'control_crawl',
    title: 'Control crawl',
    description:
      'Pauses a running crawl (its pages are kept), resumes it, or (retryFailed) reopens an ended crawl to fetch only the failed and remaining pages. To end a crawl use cancel_job.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['crawl'],
    at: 'attempt',
    input: z.strictObject({ id: jobId, action: z.enum(['pause', 'resume', 'retryFailed']) }),
    output: z.object({ id: z.string(), status: z.string(), paused: z.boolean() }),
    http: { method: 'POST', path: '/api/web/crawls/{id}/control' },
    cli: [
      crawlCommand('pause', 'pause', 'pause a crawl; its pages are kept'),
      crawlCommand('resume', 'resume', 'resume a paused crawl'),
      crawlCommand(
        'retry',
        'retryFailed',
        'fetch the failed and remaining pages of an ended crawl',
      ),
    ],
    text: ({ id, status, paused }) => `${id} ${paused ? 'paused' : status}`,
    run: async ({ id, action }, { caller }) => {
      const job = await ownJob(services.jobs, id, caller);
      await crawlOf(job, services);
      if (action === 'retryFailed') {
        const again = await retryFailed(job, caller!.owner, services);
        return { id, status: again.status, paused: false };
      }
      if (isFinal(job.status)) {
        throw new AppError('wrongState', `Cannot ${action} the crawl because it is ${job.status}.`);
      }
      const row = await services.store.open(id, job.owner, services.clock.now());
      await services.store.setPaused(row.crawl, action === 'pause');
      services.running.get(id)?.setPaused(action === 'pause');
      return { id, status: job.status, paused: action === 'pause' };
    },
  });
}

const crawlCommand = (word: string, action: string, summary: string) => ({
  words: ['crawl', word],
  args: ['id'],
  preset: { action },
  summary,
});

/** Reopens an ended crawl, even a completed one, because it may have failed pages too. */
async function retryFailed(job: Job, by: string, services: WebDeps): Promise<Job> {
  const { jobs } = services;
  if (!isFinal(job.status)) {
    throw new AppError('wrongState', 'The crawl is still running.', {
      hint: 'Wait until it ends, or cancel it first.',
    });
  }
  const { maxPages } = job.input as CrawlOptions;
  const { pages = 0 } = (job.result ?? {}) as { pages?: number };
  if (pages >= maxPages) {
    throw new AppError('wrongState', `The crawl already has ${maxPages} pages (maxPages).`, {
      hint: 'Start a new crawl with a larger maxPages, or read single pages with read_page.',
    });
  }
  return (await jobs.applyFact(job.id, { type: 'reopen', by })).job;
}
