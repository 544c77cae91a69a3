// Single pages and questions: scrape, map, search, extract, agent.
import { numberOf } from '../../runtime/json.ts';
import { AppError } from '../../errors.ts';
import type { Api, Asked } from './index.ts';
import { actedOn, failedAction, isAnswering, preparationOf } from './actions.ts';
import { expiryOf, isAddress, oddPicture, ownJob, startList, status } from './crawl.ts';
import { unusedOf } from './options.ts';
import { ended, finished, late, limitOf } from './patience.ts';
import { pictureAt } from './pictures.ts';
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

const dayMs = 86_400_000;
/** Politeness takes its time: a second between the sitemaps and pages of a foreign site. */
const mapMs = 240_000;
const pageMs = 60_000;
/** Beyond the page's own time, so that the page says what kept it. */
const slackMs = 5000;

const patienceOf = (options: Fields): number => limitOf(options, pageMs) + slackMs;

const run = <T = Fields>({ call }: Asked, name: string, input: Fields): Promise<T> =>
  call.operations.call<T>(name, input, call.context);

export const scrape: Api = async (asked) => ({
  success: true,
  data: await scraped(asked, asked.input),
});

export async function scraped(asked: Asked, options: Fields): Promise<Fields> {
  const { url } = options;
  const wish = wishOf(options);
  const way = wayOf(options, wish);
  const unused = unusedOf(options, 'reading');
  if (way === 'list') return { ...(await onePage(asked, options)), ...noteOf({ ...wish, unused }) };
  if (way === 'browser') return actedOn(asked, options, wish);
  const how = given({
    ...preparationOf(options),
    timeoutMs: timeoutOf(options, 120_000),
    maxAgeMs: ageOf(options),
  });
  const formats = [...new Set([...wish.formats, 'metadata'])];
  const reading = { url, formats, ...readingOf(options), ...how };
  const page = await readPage(asked, reading, patienceOf(options));
  if (page.error !== undefined) return { metadata: page };
  const extra: Fields = {};
  let creditsUsed = Number(page.creditsUsed ?? 0);
  if (wish.json) {
    const asking = given({ url, ...wish.json, headers: options.headers, timeoutMs: how.timeoutMs });
    const made = await finished(asked, 'extract_data', asking, patienceOf(options));
    extra.data = { data: made.data };
    creditsUsed += Number(made.creditsUsed ?? 0);
    if (made.needsModel)
      extra.warning =
        'Some fields need a model to be read: set web.model, or fill them with submit_extraction.';
  }
  if (wish.screenshot) {
    const { fullPage, quality, viewport } = wish.screenshot;
    const look = given({ fullPage, quality, width: viewport?.width, height: viewport?.height });
    const asWished = given({ headers: options.headers, timeoutMs: how.timeoutMs });
    const asking = { url, ...look, ...asWished };
    const shot = await finished(asked, 'take_screenshot', asking, patienceOf(options));
    creditsUsed += Number(shot.creditsUsed ?? 0);
    extra.screenshot = await pictureAt(asked, String(shot.jobId), String(shot.path));
  }
  const document = documentOf({ ...page, status: page.httpStatus, ...extra, creditsUsed });
  const metadata = {
    ...(document.metadata as Fields),
    sourceURL: url,
    url: page.url,
    statusCode: page.httpStatus,
    ...given({ scrapeId: page.jobId, contentType: page.type }),
  };
  return { ...document, metadata, ...noteOf({ ...wish, unused }, extra.warning) };
}

/** An answer of the site that is no page is a document too: its status says what happened. */
async function readPage(asked: Asked, wish: Fields, limitMs: number): Promise<Fields> {
  try {
    return await finished(asked, 'read_page', wish, limitMs);
  } catch (error) {
    const status = error instanceof AppError ? error.data?.status : undefined;
    if (typeof status !== 'number') throw error;
    const { message } = error as AppError;
    return { sourceURL: wish.url, url: wish.url, statusCode: status, error: message };
  }
}

/**
 * One reading where that will do. What must all be seen in one visit (data or a picture of a page that something was done
 * to) and what a later scrape compares itself with is a list of one page; actions that answer are done by the browser.
 */
function wayOf(options: Fields, wish: Wish): 'reading' | 'list' | 'browser' {
  if (wish.tracking) return 'list';
  const actions = (options.actions ?? []) as Fields[];
  const waits = Number(options.waitFor ?? 0) > 0 && (wish.json ?? wish.screenshot) !== undefined;
  if (actions.length === 0 && !waits) return 'reading';
  return actions.some(isAnswering) || oddPicture(wish).length > 0 ? 'browser' : 'list';
}

async function onePage(asked: Asked, options: Fields): Promise<Fields> {
  const { jobId: id } = await startList(asked, [String(options.url)], options);
  await ended(asked, id, patienceOf(options));
  const look = (query: URLSearchParams) => status({ ...asked, params: { id }, query });
  const out = await look(new URLSearchParams());
  // A page that is gone is told after those that are there.
  const gone = typeof out.next === 'string' ? await look(new URL(out.next).searchParams) : out;
  const [document] = [...(out.data as Fields[]), ...(gone.data as Fields[])];
  if (document && !(options.actions && document.warning))
    return { ...document, metadata: { ...(document.metadata as Fields), scrapeId: id } };
  if (document) throw failedAction(String(document.warning));
  if (typeof out.error !== 'string') throw late();
  throw new AppError('pageFailed', out.error, {
    hint: 'Try again, or crawl it with a limit of 1.',
  });
}

/** Only what the client says: nothing old is given to who did not ask for it. */
function ageOf({ maxAge }: Fields): number | undefined {
  return typeof maxAge === 'number' && maxAge > 0 ? Math.min(maxAge, 30 * dayMs) : undefined;
}

export const map: Api = async (asked) => {
  const { input } = asked;
  const wish = given({
    url: input.url,
    limit: Math.min(numberOf(input.limit ?? 5000), 100_000),
    search: input.search,
    sitemap: input.sitemap,
    subdomains: input.includeSubdomains !== false,
    query: input.ignoreQueryParameters === false ? 'keep' : 'strip',
  });
  const out = (await finished(asked, 'map_site', wish, limitOf(input, mapMs))) as {
    jobId: string;
    urls?: { url: string; title?: string }[];
  };
  const links = (out.urls ?? []).map(({ url, title }) => given({ url, title }));
  const notes = noteOf({ unused: unusedOf(input, 'map') });
  return { success: true, id: out.jobId, links, ...notes };
};

/** Starts and answers the id; the clients poll. */
async function research(asked: Asked, wish: Fields): Promise<Fields> {
  const out = await run<{ jobId: string }>(asked, 'run_agent', { ...wish, waitMs: 0 });
  return { success: true, id: out.jobId };
}

const sourcesMax = 50;
/** Pages that a search may add to those that were named. */
const foundMax = 5;

export const extract: Api = async (asked) => {
  const { urls = [], prompt, schema, enableWebSearch, ignoreInvalidURLs } = asked.input;
  const named = urls as string[];
  const invalid = ignoreInvalidURLs === false ? [] : named.filter((url) => !isAddress(url));
  const list = named
    .filter((url) => !invalid.includes(url))
    .map((url) => url.replace(/\/?\*$/, '/'));
  if (prompt === undefined && (schema === undefined || list.length === 0)) {
    throw new AppError('invalidInput', 'Say what to extract, and from where.', {
      hint: 'Give `urls` with a `schema`, or a `prompt`.',
    });
  }
  const searches = enableWebSearch === true || list.length === 0;
  const started = await research(asked, {
    prompt: prompt ?? 'Fill the schema.',
    ...(schema === undefined ? {} : { schema }),
    urls: list,
    onlyUrls: !searches,
    maxSources: Math.min(list.length + (searches ? foundMax : 0), sourcesMax),
    maxCredits: 1000,
  });
  const whole = named.find((url) => url.endsWith('*'));
  const first = whole && `Of ${whole} only its first page is read: crawl it for the others.`;
  const notes = noteOf({ unused: unusedOf(asked.input, 'extract') }, first);
  return { ...started, ...(invalid.length > 0 ? { invalidURLs: invalid } : {}), ...notes };
};

export const agent: Api = async (asked) => {
  const { prompt, urls, schema, maxCredits, strictConstrainToURLs } = asked.input;
  const credits = Math.min(Number(maxCredits ?? 100), 10_000);
  const started = await research(
    asked,
    given({ prompt, schema, urls, onlyUrls: strictConstrainToURLs, maxCredits: credits }),
  );
  return {
    ...started,
    ...noteOf({ unused: unusedOf(asked.input, 'agent') }),
  };
};

export const extractStatus: Api = async (asked) => {
  const job = await ownJob(asked, { includeResult: true });
  const state = statusOf(job.status);
  return {
    success: state !== 'failed',
    status: state === 'scraping' ? 'processing' : state,
    data: job.result?.data ?? job.result?.context ?? (state === 'completed' ? {} : null),
    sources: job.result?.sources ?? [],
    creditsUsed: job.result?.creditsUsed ?? 0,
    expiresAt: expiryOf(job),
    ...(job.error ? { error: job.error.message } : {}),
  };
};
