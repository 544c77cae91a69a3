// Maps, extractions and agents.
import { mapSite, runAgent } from '../../kinds/web/contracts.ts';
import { numberOf } from '../../runtime/json.ts';
import { AppError } from '../../errors.ts';
import { callUnchecked } from '../../dialect.ts';
import type { Api, Asked } from './route.ts';
import { expiryOf, isAddress, ownJob, type WebJob } from './crawl.ts';
import { unusedOf } from './options.ts';
import { finished, limitOf } from './wait.ts';
import { emptySchemaNote, given, noteOf, statusOf, type Fields } from './translate.ts';

/** Requests to one site are a second apart. */
const mapMs = 240_000;

export const map: Api = async (asked) => {
  const { input } = asked;
  const requested = given({
    url: input.url,
    limit: Math.min(numberOf(input.limit ?? 5000), 100_000),
    search: input.search,
    sitemap: input.sitemap,
    subdomains: input.includeSubdomains !== false,
    query: input.ignoreQueryParameters === false ? 'keep' : 'strip',
  });
  const out = (await finished(asked, mapSite, requested, limitOf(input, mapMs)).catch(
    mapError,
  )) as {
    id: string;
    urls?: { url: string; title?: string }[];
  };
  const links = (out.urls ?? []).map(({ url, title }) => given({ url, title }));
  const notes = noteOf({ unused: unusedOf(input, 'map') });
  return { success: true, id: out.id, links, ...notes };
};

function mapError(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'timeout') throw error;
  throw new AppError('timeout', 'Map timed out', { data: { reason: 'mapTimeout' }, cause: error });
}

/** Starts the job and returns its id. Clients poll it. */
async function research(asked: Asked, requested: Fields): Promise<Fields> {
  const out = await callUnchecked(asked.call, runAgent, { ...requested, waitMs: 0 });
  return { success: true, id: out.id };
}

const maxSources = 50;
/** Maximum number of pages that a search may add to the named ones. */
const maxFound = 5;

export const extract: Api = async (asked) => {
  const { urls = [], prompt, schema, enableWebSearch, ignoreInvalidURLs } = asked.input;
  const named = urls as string[];
  const invalid = ignoreInvalidURLs === false ? [] : named.filter((url) => !isAddress(url));
  const list = named
    .filter((url) => !invalid.includes(url))
    .map((url) => url.replace(/\/?\*$/, '/'));
  if (prompt === undefined && (schema === undefined || list.length === 0)) {
    throw new AppError('invalidInput', 'The request does not say what to extract, or from where.', {
      hint: 'Pass `urls` with a `schema`, or a `prompt`.',
    });
  }
  const searches = enableWebSearch === true || list.length === 0;
  const started = await research(asked, {
    prompt: prompt ?? 'Fill the schema.',
    ...(schema === undefined ? {} : { schema }),
    urls: list,
    onlyUrls: !searches,
    maxSources: Math.min(list.length + (searches ? maxFound : 0), maxSources),
    maxCredits: 1000,
  });
  const whole = named.find((url) => url.endsWith('*'));
  const first =
    whole === undefined
      ? emptySchemaNote(schema)
      : `Of ${whole} only its first page is read: crawl it for the others.`;
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
    ...noteOf({ unused: unusedOf(asked.input, 'agent') }, emptySchemaNote(schema)),
  };
};

export const extractStatus: Api = async (asked) => {
  const job = await ownJob(asked, { includeResult: true });
  const state = statusOf(job.status);
  return {
    success: state !== 'failed',
    status: state === 'scraping' ? 'processing' : state,
    data: job.result?.data ?? job.result?.context ?? (state === 'completed' ? {} : null),
    sources: sourcesOf(job),
    creditsUsed: job.result?.creditsUsed ?? 0,
    expiresAt: expiryOf(job),
    ...(job.error ? { error: job.error.message } : {}),
  };
};

/** The source URLs per field. Without a schema all URLs belong to `data`. */
function sourcesOf({ result }: WebJob): Fields {
  if (result?.provenance) return result.provenance as Fields;
  const urls = ((result?.sources ?? []) as { url: string }[]).map(({ url }) => url);
  return urls.length > 0 ? { data: urls } : {};
}
