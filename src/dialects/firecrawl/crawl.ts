// Crawls and batches: start, status with paging, errors, cancel, list.
import { crawlSite, readPages } from '../../kinds/web/contracts.ts';
import { numberOf, textOf } from '../../runtime/json.ts';
import { byName } from '../../runtime/by-name.ts';
import type { InputOf } from '../../contract.ts';
import { cancelJob, getJob, listJobs, type JobView } from '../../contracts/jobs.ts';
import { callOperation, callUnchecked } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { preparationOf } from './actions.ts';
import type { Api, Asked } from './route.ts';
import { unusedOf } from './options.ts';
import type { PagesOut } from './complete-pages.ts';
import { trackingOf } from './tracking.ts';
import {
  emptySchemaNote,
  given,
  noteOf,
  readingOf,
  statusOf,
  timeoutOf,
  parseFormats,
  type Fields,
  type RequestedFormats,
} from './translate.ts';
import { maxBytes } from './complete-pages.ts';

/** A job of the web kind: its input and result are objects. */
export type WebJob = JobView & { input?: Fields; result?: Fields };

const dayMs = 86_400_000;

export const start: Api = async (asked) => {
  const { input, base } = asked;
  const options = (input.scrapeOptions ?? {}) as Fields;
  const requested = parseFormats(options);
  const out = await callUnchecked(asked.call, crawlSite, {
    ...given({
      url: input.url,
      maxPages: Math.min(numberOf(input.limit ?? 10_000), 1_000_000),
      maxDepth: input.maxDiscoveryDepth,
      sitemap: input.sitemap,
      subdomains: input.allowSubdomains,
      externalLinks: input.allowExternalLinks,
      query: input.ignoreQueryParameters === true ? 'strip' : undefined,
      robots: input.ignoreRobotsTxt === true ? 'ignore' : undefined,
      delayMs: typeof input.delay === 'number' ? Math.round(input.delay * 1000) : undefined,
      concurrency: concurrencyOf(input),
    }),
    ...patternsOf(input),
    scope: input.crawlEntireDomain === true ? 'host' : 'path',
    ...formatsOf(options),
    ...(await trackingOf(asked, [textOf(input.url)], requested.tracking)),
    ...hookOf(input),
    ...given({ idempotencyKey: asked.idempotencyKey }),
  });
  const first = input.prompt
    ? 'The prompt was not used. Pass the options themselves.'
    : emptySchemaNote(requested.json?.schema);
  const url = `${base}/crawl/${out.id}`;
  const unused = [
    ...unusedOf(input, 'crawl'),
    ...unusedOf(options, 'reading'),
    ...unusedOfPages(options, requested),
  ];
  return { success: true, id: out.id, url, ...noteOf({ ...requested, unused }, first) };
};

/** Options of single pages that crawls and batches do not support: their pages are always fetched and read without a model. */
function unusedOfPages({ maxAge, parsers }: Fields, requested: RequestedFormats): string[] {
  return [
    ...(maxAge ? ['maxAge'] : []),
    ...(Array.isArray(parsers) && parsers.length === 0 ? ['parsers'] : []),
    ...(requested.json?.prompt === undefined ? [] : ['prompt of json']),
    ...oddPicture(requested).map((name) => `${name} of screenshot`),
  ];
}

/** A crawl takes screenshots of the first screen only. */
export function oddPicture({ screenshot }: RequestedFormats): string[] {
  if (!screenshot) return [];
  const { fullPage, ...more } = screenshot;
  return [...(fullPage ? ['fullPage'] : []), ...Object.keys(more)];
}

export const startBatch: Api = async (asked) => {
  const { input, base } = asked;
  const urls = (input.urls ?? []) as string[];
  const valid = urls.filter(isAddress);
  const invalid = urls.filter((url) => !isAddress(url));
  const asking = input.ignoreInvalidURLs === false ? urls : valid;
  const out = await startList(asked, asking, input);
  const requested = parseFormats(input);
  return {
    success: true,
    id: out.id,
    url: `${base}/batch/scrape/${out.id}`,
    ...(invalid.length > 0 ? { invalidURLs: invalid } : {}),
    ...noteOf(
      { ...requested, unused: [...unusedOf(input, 'batch'), ...unusedOfPages(input, requested)] },
      emptySchemaNote(requested.json?.schema),
    ),
  };
};

export const isAddress = (url: string): boolean => /^https?:\/\//i.test(url) && URL.canParse(url);

/** A batch is a crawl that follows no links. */
export async function startList(
  asked: Asked,
  urls: readonly string[],
  options: Fields,
): Promise<{ id: string }> {
  if (options.appendToId !== undefined) {
    throw new AppError('unsupported', 'Pages cannot be added to a batch that runs.', {
      hint: 'Start another batch with them.',
    });
  }
  return callUnchecked(asked.call, crawlSite, {
    urls,
    maxDepth: 0,
    maxPages: Math.max(urls.length, 1),
    sitemap: 'skip',
    ...given({ concurrency: concurrencyOf(options), idempotencyKey: asked.idempotencyKey }),
    ...formatsOf(options),
    ...(await trackingOf(asked, urls, parseFormats(options).tracking)),
    ...hookOf(options),
  });
}

/** Firecrawl may allow more than our crawl supports. */
const concurrencyOf = ({ maxConcurrency: requested }: Fields): unknown =>
  typeof requested === 'number' ? Math.min(requested, 100) : requested;

function formatsOf(options: Fields): Fields {
  const requested = parseFormats(options);
  const screenshot = requested.screenshot ? ['screenshot'] : [];
  return {
    // Firecrawl renders every page. Here only pages that are empty without scripts are rendered.
    render: 'auto',
    // The text is compared.
    formats: [
      ...new Set([
        ...requested.formats,
        ...(requested.tracking ? ['markdown'] : []),
        'metadata',
        ...screenshot,
      ]),
    ],
    ...(requested.json?.schema ? { schema: requested.json.schema } : {}),
    ...readingOf(options),
    ...preparationOf(options),
    ...given({ pageTimeoutMs: timeoutOf(options, 300_000) }),
  };
}

function patternsOf(input: Fields): Fields {
  const { includePaths, excludePaths } = input as {
    includePaths?: string[];
    excludePaths?: string[];
  };
  const patterns = [...(includePaths ?? []), ...(excludePaths ?? [])];
  return given({
    include: includePaths,
    exclude: excludePaths,
    patternsOn: input.regexOnFullURL === true ? 'url' : 'path',
    // As in the original: a start that does not match is read for its links and is not a document.
    startsMatch: patterns.length > 0 ? true : undefined,
  });
}

const hookEvents: Record<string, string> = byName({
  started: 'start',
  page: 'page',
  completed: 'completed',
  failed: 'failed',
});

/** Webhooks in Firecrawl's format, for all events by default. `secret` signs them; Firecrawl sets it elsewhere. */
function hookOf(input: Fields): Fields {
  if (input.webhook === undefined || input.webhook === null) return {};
  const hook = (
    typeof input.webhook === 'string' ? { url: input.webhook } : input.webhook
  ) as Fields;
  const { url, headers, metadata, secret } = hook;
  const names = Object.keys(hookEvents);
  const wanted = (hook.events ?? names) as string[];
  if (!Array.isArray(wanted) || !wanted.every((event) => names.includes(event))) {
    throw new AppError('invalidInput', 'webhook.events contains an unknown event.', {
      hint: `Known events: ${names.join(', ')}.`,
    });
  }
  const events = wanted.map((event) => hookEvents[event]);
  return { webhook: given({ url, headers, metadata, secret, events, format: 'firecrawl' }) };
}

const startedHere = new Set(['crawl', 'agent']);

/** Jobs that these routes start. Other jobs of this server are neither listed nor cancelled here. */
export async function ownJob(
  asked: Asked,
  more: Omit<InputOf<typeof getJob>, 'id'> = {},
): Promise<WebJob> {
  const id = asked.params.id!;
  const job = (await callOperation(asked.call, getJob, { id, ...more })) as WebJob;
  if (job.kind === 'web' && startedHere.has(job.action ?? '')) return job;
  throw new AppError('notFound', `${id} is not a crawl, batch, extraction or agent.`, {
    hint: 'Pass the id from the response of the call that started it.',
  });
}

/** The default retention of ended jobs. */
export const expiryOf = ({ timings: { finishedAt, createdAt } }: WebJob): string =>
  new Date(Date.parse(finishedAt ?? createdAt) + 30 * dayMs).toISOString();

export const isBatch = ({ input }: WebJob): boolean =>
  Array.isArray(input?.urls) && input.maxDepth === 0;

export const cancel: Api = async (asked) => {
  const { id } = await ownJob(asked);
  const job = await callOperation(asked.call, cancelJob, { id });
  return { success: true, status: job.status === 'cancelled' ? 'cancelled' : statusOf(job.status) };
};

export const errors: Api = async (asked) => {
  const id = asked.params.id!;
  const list = async (outcomes: string[]) => {
    const found: Fields[] = [];
    for (let cursor: string | undefined = ''; cursor !== undefined && found.length < 10_000;) {
      const more: Fields = cursor === '' ? {} : { cursor };
      const page: PagesOut = await callUnchecked(asked.call, readPages, {
        id,
        outcomes,
        limit: 500,
        maxBytes: maxBytes,
        ...more,
      });
      found.push(...page.pages);
      cursor = page.nextCursor;
    }
    return found;
  };
  const failed = await list(['errored']);
  const blocked = await list(['disallowed']);
  return {
    success: true,
    errors: failed.map(({ n, url, reason, detail, at }) =>
      given({
        id: `${id}-${String(n)}`,
        timestamp: at,
        url,
        error: detail ?? reason,
        code: reason,
      }),
    ),
    robotsBlocked: blocked.map(({ url }) => url),
  };
};

export const active: Api = async (asked) => {
  const list = await callOperation(asked.call, listJobs, {
    kind: ['web'],
    status: ['queued', 'running'],
    limit: 100,
  });
  const view = async (id: string) =>
    (await callOperation(asked.call, getJob, { id, includeInput: true })) as WebJob;
  const jobs = await Promise.all(list.jobs.map(({ id }) => view(id)));
  const crawls = jobs.filter((job) => job.action === 'crawl' && !isBatch(job));
  return {
    success: true,
    crawls: crawls.map(({ id, input = {}, timings }) => ({
      id,
      teamId: 'local',
      team_id: 'local',
      url: input.url ?? (input.urls as string[] | undefined)?.[0],
      created_at: timings.createdAt,
      options: { limit: input.maxPages, maxDiscoveryDepth: input.maxDepth },
    })),
  };
};
