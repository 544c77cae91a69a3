// Maps SearchClaw's calls to our operations: the same input fields, and a superset of its output.
import {
  extractData,
  mapSite,
  readPage,
  runAgent,
  runPipeline,
  webSearch,
} from '../../kinds/web/contracts.ts';
import type { DialectCall } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { given, notUsed, number, pending, timed, type Api, type Fields } from './call.ts';
import { chunked } from './chunks.ts';
import { jobStatusOf, stepsOf } from './jobs.ts';

interface Row {
  title: string;
  url: string;
  snippet: string;
  engine: string;
  source?: string;
  position: number;
  published?: string;
  imageUrl?: string;
  thumbnailUrl?: string;
  width?: number;
  height?: number;
}

interface SearchOut extends Fields {
  id: string;
  rows?: Row[];
  suggestions?: string[];
  infobox?: Fields;
  notice?: string;
  creditsUsed?: number;
  context?: string;
  sources?: { url: string; title?: string }[];
}

/** A search's result is the JSON of its job. */
async function searched(call: DialectCall, input: Fields) {
  const { out, ...time } = await timed(call, webSearch, input);
  return { out: out as SearchOut, ...time };
}

/** Maximum age of a cached page. */
const cacheMs = 3_600_000;

/** Query parameters are text. */
function searchInput(type: string, input: Fields): Fields {
  return given({
    query: input.q ?? input.query,
    type,
    count: number(input.count),
    offset: number(input.offset),
    language: input.language,
    country: input.country,
    safesearch: number(input.safesearch),
    freshness: input.freshness,
  });
}

const searchOf =
  (type: string): Api =>
  async (call, input) => {
    const found = await searched(call, searchInput(type, input));
    return found.out.status === 'completed' ? searchShape(found, input) : pending(found.out);
  };

/** Each engine is queried once. Queries are neither rephrased nor shortened. */
function depthNotice({ depth }: Fields): string | undefined {
  return depth === undefined || depth === 'basic' ? undefined : `depth=${String(depth)} was not used.`; // prettier-ignore
}

function searchShape(
  { out: found, response_time_ms }: { out: SearchOut; response_time_ms: number },
  input: Fields,
): Fields {
  const { rows = [], suggestions = [], infobox, creditsUsed } = found;
  const notice = [found.notice, depthNotice(input)].filter(Boolean).join(' ');
  return {
    query: found.query,
    results: rows.map(resultOf),
    infobox: infobox ?? null,
    suggestions: suggestions.slice(0, 10),
    meta: {
      total_results: rows.length,
      cached: false,
      response_time_ms,
      engines_used: [...new Set(rows.map(({ engine }) => engine))],
      credits_used: creditsUsed,
      ...(notice ? { notice } : {}),
    },
    job_id: found.id,
  };
}

function resultOf(row: Row): Fields {
  const {
    title,
    url,
    snippet,
    engine,
    source,
    position,
    published,
    imageUrl,
    thumbnailUrl,
    width,
    height,
  } = row;
  return given({
    title,
    url,
    snippet,
    source: engine,
    position,
    published_date: published,
    source_name: source,
    thumbnail: thumbnailUrl,
    thumbnail_url: thumbnailUrl,
    img_src: imageUrl,
    source_url: imageUrl === undefined ? undefined : url,
    width,
    height,
  });
}

const imagesDefault = 20;
const allImages = searchOf('images');

export const search = searchOf('web');
export const news = searchOf('news');
export const images: Api = (call, input) => allImages(call, { count: imagesDefault, ...input });

export const searchAi: Api = async (call, input) => {
  const found = await searched(call, searchInput('answer', input));
  if (found.out.status !== 'completed') return pending(found.out);
  const { rows = [], context, sources = [] } = found.out;
  const snippets = new Map(rows.map(({ url, snippet }) => [url, snippet]));
  return {
    ...searchShape(found, input),
    // If no page has a passage, use the engines' snippets.
    context:
      context ||
      rows
        .slice(0, 5)
        .map(({ title, snippet }, i) => `[${i + 1}] ${title}: ${snippet}`)
        .join('\n'),
    sources: sources.map((source) => ({ ...source, snippet: snippets.get(source.url) ?? '' })),
  };
};

export const suggest: Api = async (call, input) => {
  const { out: found } = await searched(call, searchInput('suggest', input));
  return { query: found.query ?? input.q, suggestions: found.suggestions ?? [] };
};

export const extract: Api = async (call, input) => {
  const options = given({
    url: input.url,
    schema: input.schema,
    prompt: input.prompt,
    timeoutMs: number(input.timeout_ms),
  });
  const { out, response_time_ms } = await timed(call, extractData, options);
  if (out.status !== 'completed') return pending(out);
  const method = out.model ? 'llm' : out.schema === undefined && !input.schema ? 'raw' : 'rule';
  return {
    url: out.url,
    data: out.data,
    fields: out.fields,
    missing: out.missing,
    valid: out.valid,
    ...(out.needsModel ? { needs_model: out.needsModel } : {}),
    meta: {
      cached: false,
      response_time_ms,
      credits_used: out.creditsUsed,
      extraction_method: method,
      model_used: out.model ?? null,
      tokens_used: 0,
      page_title: out.title ?? null,
      ...notUsed(input, 'wait_for', 'proxy', 'chunking'),
    },
    job_id: out.id,
  };
};

export const markdown: Api = async (call, input) => {
  const options = given({
    url: input.url,
    formats: ['markdown', 'metadata'],
    includeImages: input.include_images ?? true,
    includeLinks: input.include_links,
    onlyMainContent: input.main_content_only,
    timeoutMs: number(input.timeout_ms),
    maxAgeMs: input.cache === true ? cacheMs : undefined,
    maxBytes: number(input.max_bytes),
    offset: number(input.offset),
  });
  const { out, response_time_ms } = await timed(call, readPage, options);
  if (out.status !== 'completed') return pending(out);
  const text = String(out.markdown ?? '');
  return {
    url: out.url,
    title: out.title ?? null,
    markdown: text,
    ...given({ next_offset: out.nextOffset }),
    meta: {
      cached: out.cached === true,
      response_time_ms,
      ...given({ age_ms: out.ageMs }),
      credits_used: out.creditsUsed,
      word_count: out.wordCount,
      metadata: out.metadata,
      ...notUsed(input, 'wait_for', 'proxy'),
    },
    ...chunked(text, input.chunking as Fields | undefined),
    job_id: out.id,
  };
};

/** With a webhook URL the work continues as a job and the call returns immediately. */
export function hookOf(input: Fields): Fields {
  const { webhook_url: url, webhook_secret: secret } = input;
  return typeof url === 'string' ? { webhook: given({ url, secret, format: 'searchclaw' }) } : {};
}

const inBackground = (input: Fields): Fields =>
  typeof input.webhook_url === 'string' ? { ...hookOf(input), waitMs: 0 } : {};

export const jobStatus: Api = (call, input) => jobStatusOf(call, input);

export const map: Api = async (call, input) => {
  const options = given({
    url: input.url,
    limit: Math.min(number(input.max_pages) ?? 100, number(input.limit) ?? Infinity),
    search: input.search,
    subdomains: input.include_subdomains,
    sitemap: input.ignore_sitemap === true ? 'skip' : undefined,
  });
  const { out } = await timed(call, mapSite, options);
  if (out.status !== 'completed') return pending(out);
  const found = (out.urls ?? []) as { url: string; title?: string; source: string }[];
  const urls = found.map(({ url, title, source }) => ({
    url,
    title: title ?? null,
    source: source === 'sitemap' ? 'sitemap' : 'crawl',
  }));
  return {
    success: true,
    url: out.url,
    total_discovered: out.total,
    urls,
    credits_used: out.creditsUsed,
    ...notUsed(input, 'timeout_ms', 'proxy'),
  };
};

export const pipeline: Api = async (call, input) => {
  const options = given({
    query: input.query,
    schema: input.schema ?? input.extract_schema,
    prompt: input.prompt,
    maxResults: number(input.max_results),
    extractFrom: number(input.extract_from),
  });
  const { out, response_time_ms } = await researched(call, runPipeline, input, options);
  if (isPending(out)) return pending(out);
  const items = (out.items ?? []) as Fields[];
  const extracted = Number(out.extracted ?? 0);
  const total = Number(out.creditsUsed ?? 0);
  return {
    success: out.status === 'completed',
    status: out.status,
    query: out.query ?? input.query,
    results: items.map(({ url, title, data, error }) =>
      given({ url, title, extracted_data: data, data, error }),
    ),
    meta: {
      search_credits: total - extracted,
      extract_credits: extracted,
      total_credits: total,
      response_time_ms,
      cached: false,
      extracted,
      failed: out.failed ?? 0,
      credits_used: total,
    },
    steps: stepsOf(out.steps),
    job_id: out.id,
    ...(out.notice === undefined ? {} : { notice: out.notice }),
    ...(out.error === undefined ? {} : { error: out.error }),
    ...notUsed(input, 'search_params', 'timeout', 'chunking'),
  };
};

export const agent: Api = async (call, input) => {
  const options = given({
    prompt: input.prompt,
    schema: input.schema,
    urls: input.urls,
    maxCredits: number(input.max_credits),
    maxSources: number(input.max_sources),
  });
  const { out } = await researched(call, runAgent, input, options);
  if (isPending(out))
    return { ...pending(out), success: true, data: null, sources: [], steps: [], error: null };
  return {
    success: out.status === 'completed',
    status: out.status,
    job_id: out.id,
    data: out.data ?? ((input.schema === undefined && out.context) || null),
    context: out.context,
    provenance: out.provenance,
    conflicts: out.conflicts,
    sources: out.sources ?? [],
    credits_used: out.creditsUsed ?? 0,
    steps: stepsOf(out.steps),
    error: out.error ?? null,
  };
};

/** Finding nothing is a result, not an error. It lists what was tried. */
async function researched(
  call: DialectCall,
  contract: typeof runAgent | typeof runPipeline,
  input: Fields,
  options: Fields,
) {
  try {
    return await timed(call, contract, { ...options, ...inBackground(input) });
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'nothingFound') throw error;
    const { result, jobId } = error.data as { result?: Fields; jobId: string };
    const out: Fields = { ...result, id: jobId, status: 'failed', error: error.message };
    return { out, response_time_ms: 0 };
  }
}

const isPending = ({ status }: Fields): boolean => status !== 'completed' && status !== 'failed';
