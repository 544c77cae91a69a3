// Single pages: scrape, and what an earlier scrape returned.
import {
  extractData,
  readPage as readPageContract,
  takeScreenshot,
} from '../../kinds/web/contracts.ts';
import { AppError } from '../../errors.ts';
import type { Api, Asked } from './route.ts';
import { actedOn, failedAction, returnsContent, preparationOf } from './actions.ts';
import { oddPicture, startList, type WebJob } from './crawl.ts';
import { unusedOf } from './options.ts';
import { ended, finished, late, limitOf } from './wait.ts';
import { pictureAt } from './pictures.ts';
import { documentAt, status } from './status.ts';
import {
  documentOf,
  emptySchemaNote,
  given,
  noteOf,
  readingOf,
  timeoutOf,
  parseFormats,
  type Fields,
  type RequestedFormats,
} from './translate.ts';
import { getJob, listJobs } from '../../contracts/jobs.ts';

const dayMs = 86_400_000;
const pageMs = 60_000;
/** Added to the page timeout, so that the page error is reported and not our own timeout. */
const slackMs = 5000;
/** Firecrawl's default: an earlier result that is not older than this is reused unless `maxAge` is set. */
const maxAgeDefault = 2 * dayMs;

const waitLimitOf = (options: Fields): number => limitOf(options, pageMs) + slackMs;

export const scrape: Api = async (asked) => ({
  success: true,
  data: await scraped(asked, asked.input),
});

export async function scraped(asked: Asked, options: Fields): Promise<Fields> {
  const { url, headers } = options;
  const requested = parseFormats(options);
  const way = wayOf(options, requested);
  const unused = unusedOf(options, 'reading');
  if (way === 'list')
    return { ...(await onePage(asked, options)), ...noteOf({ ...requested, unused }) };
  if (way === 'browser') return actedOn(asked, options, requested);
  const timeoutMs = timeoutOf(options, 120_000);
  const maxAgeMs = ageOf(options);
  const how = given({
    ...preparationOf(options),
    timeoutMs,
    maxAgeMs,
    reusable: options.storeInCache === false ? false : undefined,
    pdf: (options.parsers as unknown[] | undefined)?.length === 0 ? 'base64' : undefined,
  });
  const formats = [...new Set([...requested.formats, 'metadata'])];
  const reading = { url, formats, ...readingOf(options), ...how };
  const page = await readPage(asked, reading, waitLimitOf(options));
  if (page.error !== undefined) return { metadata: page };
  const tags = [tagOf(String(page.id))];
  const alsoWith = (input: Fields) => given({ url, ...input, headers, timeoutMs, tags });
  const made = requested.json
    ? await finished(asked, extractData, alsoWith(requested.json), waitLimitOf(options))
    : undefined;
  const look = requested.screenshot && pictureOptions(requested.screenshot);
  const shot = look
    ? await finished(asked, takeScreenshot, alsoWith(look), waitLimitOf(options))
    : undefined;
  const document = await assembled(asked, { url, maxAgeMs, page, made, shot });
  return { ...document, ...noteOf({ ...requested, unused }, jsonNote(requested, made)) };
}

const pictureOptions = ({
  fullPage,
  quality,
  viewport,
}: NonNullable<RequestedFormats['screenshot']>): Fields =>
  given({ fullPage, quality, width: viewport?.width, height: viewport?.height });

function jsonNote({ json }: RequestedFormats, made: Fields | undefined): string | undefined {
  const needsModel = made?.needsModel
    ? 'Some fields need a model to be read: set web.model, or fill them with submit_extraction.'
    : undefined;
  return emptySchemaNote(json?.schema) ?? needsModel;
}

/** Links the jobs of one scrape: the reading job has the id, the others have this tag. */
const tagOf = (id: string): string => `scrape-${id}`;

interface Scraped {
  url: unknown;
  maxAgeMs: unknown;
  page: Fields;
  made?: Fields | undefined;
  shot?: Fields | undefined;
}

/** Combines page, extracted data and screenshot in one document. */
async function assembled(
  asked: Asked,
  { url, maxAgeMs, page, made, shot }: Scraped,
): Promise<Fields> {
  const credits = [page, made, shot].map((one) => Number(one?.creditsUsed ?? 0));
  const document = documentOf({
    ...page,
    status: page.httpStatus,
    ...(made ? { data: { data: made.data } } : {}),
    ...(shot ? { screenshot: await pictureAt(asked, String(shot.id), String(shot.path)) } : {}),
    creditsUsed: credits.reduce((sum, one) => sum + one, 0),
  });
  const metadata = {
    ...(document.metadata as Fields),
    sourceURL: url,
    url: page.url,
    statusCode: page.httpStatus,
    ...given({
      scrapeId: page.id,
      contentType: page.type,
      cacheState: maxAgeMs === undefined ? undefined : page.cached === true ? 'hit' : 'miss',
    }),
  };
  return { ...document, metadata };
}

export const scrapeStatus: Api = async (asked) => ({
  success: true,
  data: (await documentAt(asked)) ?? (await earlier(asked)),
});

async function earlier(asked: Asked): Promise<Fields> {
  const id = asked.params.id!;
  const { operations, context } = asked.call;
  const page = (await operations.find('read_page')?.outputFor?.(id, context)) as Fields | undefined;
  if (page?.status !== 'completed') {
    throw new AppError('notFound', `${id} is not a scrape that was completed.`, {
      hint: 'Pass the scrapeId from the metadata of a document. Scrapes whose actions return something are not kept.',
    });
  }
  const { input } = (await operations.call(getJob, { id, includeInput: true }, context)) as WebJob;
  const more = { kind: ['web'], tag: [tagOf(id)], status: ['completed' as const], limit: 20 };
  const { jobs } = await operations.call(listJobs, more, context);
  const last = async (name: string) => {
    for (const { id: other } of jobs) {
      const answer = await operations.find(name)?.outputFor?.(other, context);
      if (answer) return answer as Fields;
    }
    return undefined;
  };
  const made = await last('extract_data');
  const shot = await last('take_screenshot');
  return assembled(asked, { url: input?.url, maxAgeMs: input?.maxAgeMs, page, made, shot });
}

/** An error response of the site is a document as well. Its status tells what happened. */
async function readPage(asked: Asked, requested: Fields, limitMs: number): Promise<Fields> {
  try {
    return await finished(asked, readPageContract, requested, limitMs);
  } catch (error) {
    const status = error instanceof AppError ? error.data?.status : undefined;
    if (typeof status !== 'number') throw error;
    const { message, data } = error as AppError;
    const page = {
      sourceURL: requested.url,
      url: requested.url,
      statusCode: status,
      error: message,
    };
    return { ...page, ...given({ scrapeId: data?.jobId }) };
  }
}

/**
 * Chooses the cheapest way. A plain reading is enough for most requests. A crawl of one page is used when data or a screenshot
 * must come from the same visit, and for change tracking. Actions that return results run in the browser.
 */
function wayOf(options: Fields, requested: RequestedFormats): 'reading' | 'list' | 'browser' {
  if (requested.tracking) return 'list';
  const actions = (options.actions ?? []) as Fields[];
  const waits =
    Number(options.waitFor ?? 0) > 0 && (requested.json ?? requested.screenshot) !== undefined;
  if (actions.length === 0 && !waits) return 'reading';
  return actions.some(returnsContent) || oddPicture(requested).length > 0 ? 'browser' : 'list';
}

async function onePage(asked: Asked, options: Fields): Promise<Fields> {
  const { id } = await startList(asked, [String(options.url)], options);
  await ended(asked, id, waitLimitOf(options));
  const out = await status({ ...asked, params: { id }, query: new URLSearchParams() });
  const [document] = out.data as Fields[];
  if (document && !(options.actions && document.warning)) return document;
  if (document) throw failedAction(String(document.warning), id);
  if (typeof out.error !== 'string') throw late(id);
  throw new AppError('pageFailed', out.error, {
    hint: 'Try again, or crawl it with a limit of 1.',
    data: { jobId: id },
  });
}

function ageOf({ maxAge }: Fields): number | undefined {
  const age = typeof maxAge === 'number' ? maxAge : maxAgeDefault;
  return age > 0 ? Math.min(age, 30 * dayMs) : undefined;
}
