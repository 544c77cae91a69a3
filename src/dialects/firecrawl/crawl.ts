// Crawls and batches: start, status with paging, errors, cancel, list.
import { numberOf, textOf } from '../../runtime/json.ts';
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import { preparationOf } from './actions.ts';
import type { Api, Asked } from './index.ts';
import { unusedOf } from './options.ts';
import { hasPictures, withPicture } from './pictures.ts';
import { answers, documentsOf, nextOf, wishOfPart, type Counts, type Reading } from './parts.ts';
import { changeOf, trackedSince, trackingOf } from './tracking.ts';
import {
  documentOf,
  given,
  noteOf,
  readingOf,
  statusOf,
  timeoutOf,
  wishOf,
  type Fields,
  type Wish,
} from './translate.ts';
import { bytesMax, whole } from './whole.ts';

export interface JobView extends Fields {
  id: string;
  kind: string;
  action?: string;
  status: string;
  result?: Fields;
  error?: { code: string; message: string; data?: Fields };
  input?: Fields;
  timings: { createdAt: string; finishedAt?: string; runMs?: number };
}

interface PagesOut {
  pages: Fields[];
  nextCursor?: string;
  more: boolean;
}

const pageLimit = 100;
/** Pictures stand in the documents: fewer of those at once. */
const pictureLimit = 20;
const dayMs = 86_400_000;
const bodies = ['markdown', 'html', 'raw', 'links', 'images', 'metadata', 'data', 'screenshot'];

const run = <T>({ call }: Asked, name: string, input: Fields): Promise<T> =>
  call.operations.call<T>(name, input, call.context);

export const start: Api = async (asked) => {
  const { input, base } = asked;
  const options = (input.scrapeOptions ?? {}) as Fields;
  const wish = wishOf(options);
  const out = await run<{ jobId: string }>(asked, 'crawl_site', {
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
    ...(await trackingOf(asked, [textOf(input.url)], wish.tracking)),
    ...hookOf(input),
    ...given({ idempotencyKey: asked.idempotencyKey }),
  });
  const prompt = input.prompt ? 'The prompt was not used: give the options themselves.' : undefined;
  const url = `${base}/crawl/${out.jobId}`;
  const unused = [
    ...unusedOf(input, 'crawl'),
    ...unusedOf(options, 'reading'),
    ...unusedOfPages(options, wish),
  ];
  return { success: true, id: out.jobId, url, ...noteOf({ ...wish, unused }, prompt) };
};

/** What single pages know and those of a crawl or batch do not: they are always fetched, and read without a model. */
function unusedOfPages({ maxAge }: Fields, wish: Wish): string[] {
  return [
    ...(maxAge ? ['maxAge'] : []),
    ...(wish.json?.prompt === undefined ? [] : ['prompt of json']),
    ...oddPicture(wish).map((name) => `${name} of screenshot`),
  ];
}

/** Pictures of a crawl are the first screen. */
export function oddPicture({ screenshot }: Wish): string[] {
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
  const wish = wishOf(input);
  return {
    success: true,
    id: out.jobId,
    url: `${base}/batch/scrape/${out.jobId}`,
    ...(invalid.length > 0 ? { invalidURLs: invalid } : {}),
    ...noteOf({ ...wish, unused: [...unusedOf(input, 'batch'), ...unusedOfPages(input, wish)] }),
  };
};

export const isAddress = (url: string): boolean => /^https?:\/\//i.test(url) && URL.canParse(url);

/** A list of pages is a crawl that follows no links. */
export async function startList(
  asked: Asked,
  urls: readonly string[],
  options: Fields,
): Promise<{ jobId: string }> {
  if (options.appendToId !== undefined) {
    throw new AppError('unsupported', 'Pages cannot be added to a batch that runs.', {
      hint: 'Start another batch with them.',
    });
  }
  return run(asked, 'crawl_site', {
    urls,
    maxDepth: 0,
    maxPages: Math.max(urls.length, 1),
    sitemap: 'skip',
    ...given({ concurrency: concurrencyOf(options), idempotencyKey: asked.idempotencyKey }),
    ...formatsOf(options),
    ...(await trackingOf(asked, urls, wishOf(options).tracking)),
    ...hookOf(options),
  });
}

/** A plan of theirs may allow more than a crawl of ours can use. */
const concurrencyOf = ({ maxConcurrency: wish }: Fields): unknown =>
  typeof wish === 'number' ? Math.min(wish, 100) : wish;

function formatsOf(options: Fields): Fields {
  const wish = wishOf(options);
  const screenshot = wish.screenshot ? ['screenshot'] : [];
  return {
    // Theirs come out of a browser; here only those that are empty without one.
    render: 'auto',
    // What is compared is the text.
    formats: [
      ...new Set([
        ...wish.formats,
        ...(wish.tracking ? ['markdown'] : []),
        'metadata',
        ...screenshot,
      ]),
    ],
    ...(wish.json?.schema ? { schema: wish.json.schema } : {}),
    ...readingOf(options),
    ...preparationOf(options),
    ...given({ pageTimeoutMs: timeoutOf(options, 300_000) }),
  };
}

function patternsOf(input: Fields): Fields {
  return given({
    include: input.includePaths,
    exclude: input.excludePaths,
    patternsOn: input.regexOnFullURL === true ? 'url' : 'path',
  });
}

const hookEvents: Record<string, string> = byName({
  started: 'start',
  page: 'page',
  completed: 'completed',
  failed: 'failed',
});

/** In the shape its receivers know; all events unless it says which. A `secret`, which theirs is set elsewhere, signs them. */
function hookOf(input: Fields): Fields {
  if (input.webhook === undefined || input.webhook === null) return {};
  const hook = (
    typeof input.webhook === 'string' ? { url: input.webhook } : input.webhook
  ) as Fields;
  const { url, headers, metadata, secret } = hook;
  const names = Object.keys(hookEvents);
  const wanted = (hook.events ?? names) as string[];
  if (!Array.isArray(wanted) || !wanted.every((event) => names.includes(event))) {
    throw new AppError('invalidInput', 'webhook.events names an event that there is not.', {
      hint: `There are ${names.join(', ')}.`,
    });
  }
  const events = wanted.map((event) => hookEvents[event]);
  return { webhook: given({ url, headers, metadata, secret, events, format: 'firecrawl' }) };
}

const startedHere = new Set(['crawl', 'agent']);

/** Work that these paths start: what else this server does is not theirs to tell of, and not theirs to cancel. */
export async function ownJob(asked: Asked, more: Fields = {}): Promise<JobView> {
  const id = asked.params.id!;
  const job = await run<JobView>(asked, 'get_job', { id, ...more });
  if (job.kind === 'web' && startedHere.has(job.action ?? '')) return job;
  throw new AppError('notFound', `${id} is no crawl, batch, extraction or agent.`, {
    hint: 'Give the id that the call which started it answered.',
  });
}

export const status: Api = async (asked) => (await lookAt(asked)).answer;

/** `skip`: where who follows the crawl goes on; `next` is there only for what can be read now. */
export async function lookAt(asked: Asked): Promise<{ answer: Fields; skip: string }> {
  const { params, query, base } = asked;
  const id = params.id!;
  const job = await ownJob(asked, { includeInput: true });
  const counts = (job.result ?? job) as Counts;
  const since = await trackedSince(asked, job);
  const skip = skipOf(query);
  const most = hasPictures(job.input) ? pictureLimit : pageLimit;
  const limit = Math.min(Number(query.get('limit') ?? most), most);
  const state = answeredWithout(job) ? 'completed' : statusOf(job.status);
  const reading: Reading = {
    query,
    counts,
    limit: Number(job.input?.maxPages ?? Infinity),
    tracks: since !== undefined,
    ended: state !== 'scraping',
  };
  const fields = since === undefined ? bodies : [...bodies, 'diff'];
  const read = await run<PagesOut>(asked, 'read_pages', {
    id,
    fields,
    limit,
    maxBytes: bytesMax,
    ...(skip > 0 ? { cursor: String(skip) } : {}),
    ...wishOfPart(reading),
  });
  const documents = documentsOf(reading, read.pages);
  const pages = (counts.pages ?? 0) + answers(reading);
  const waiting = reading.ended ? 0 : (counts.fates?.queued ?? 0);
  const kind = isBatch(job) ? 'batch/scrape' : 'crawl';
  const position = skip + read.pages.length;
  const cursor = read.nextCursor === undefined ? {} : { cursor: read.nextCursor };
  const next = nextOf(reading, { position, documents: documents.length, ...cursor });
  const { createdAt, finishedAt, runMs = 0 } = job.timings;
  const answer = {
    success: true,
    status: state,
    total: Math.min(pages + waiting, reading.limit),
    completed: pages,
    creditsUsed: counts.creditsUsed ?? counts.pages ?? 0,
    createdAt,
    ...(finishedAt ? { completedAt: finishedAt } : {}),
    duration: Math.round(runMs / 1000),
    expiresAt: expiryOf(job),
    next: next === undefined ? null : `${base}/${kind}/${id}?${next}&limit=${limit}`,
    data: await Promise.all(
      documents.map(async (page) => {
        const full = await whole(asked, id, page, fields);
        return tracked(await withPicture(asked, id, full), since);
      }),
    ),
    ...(job.error && state !== 'completed' ? { error: job.error.message } : {}),
  };
  return { answer, skip: String(position) };
}

function skipOf(query: URLSearchParams): number {
  const skip = Number(query.get('skip') ?? 0);
  if (Number.isSafeInteger(skip) && skip >= 0) return skip;
  throw new AppError('invalidInput', 'skip is no number of documents.', {
    hint: 'Use `next` as it came.',
  });
}

/** As long as ended jobs are kept by default. */
export const expiryOf = ({ timings: { finishedAt, createdAt } }: JobView): string =>
  new Date(Date.parse(finishedAt ?? createdAt) + 30 * dayMs).toISOString();

/** No page was had, but the site answered: for their clients that is an end like others. */
const answeredWithout = ({ error }: JobView): boolean =>
  error?.code === 'nothingFetched' && typeof error.data?.status === 'number';

function tracked(page: Fields, since: string | null | undefined): Fields {
  const document = documentOf(page);
  return since === undefined || (page.fate === 'errored' && page.change === undefined)
    ? document
    : { ...document, changeTracking: changeOf(page, since) };
}

const isBatch = ({ input }: JobView): boolean => Array.isArray(input?.urls) && input.maxDepth === 0;

export const cancel: Api = async (asked) => {
  const { id } = await ownJob(asked);
  const job = await run<JobView>(asked, 'cancel_job', { id });
  return { success: true, status: job.status === 'cancelled' ? 'cancelled' : statusOf(job.status) };
};

export const errors: Api = async (asked) => {
  const id = asked.params.id!;
  const list = async (fates: string[]) => {
    const found: Fields[] = [];
    for (let cursor: string | undefined = ''; cursor !== undefined && found.length < 10_000;) {
      const more: Fields = cursor === '' ? {} : { cursor };
      const page: PagesOut = await run<PagesOut>(asked, 'read_pages', {
        id,
        fates,
        limit: 500,
        maxBytes: bytesMax,
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
  const list = await run<{ jobs: { id: string }[] }>(asked, 'list_jobs', {
    kind: ['web'],
    status: ['queued', 'running'],
    limit: 100,
  });
  const jobs = await Promise.all(
    list.jobs.map(({ id }) => run<JobView>(asked, 'get_job', { id, includeInput: true })),
  );
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
