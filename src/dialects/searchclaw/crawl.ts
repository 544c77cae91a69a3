// SearchClaw's crawl, with the knobs that only its HTTP has. Ours follows links, so a way to the next page is rarely needed;
// what has no use here is said in the answer.
import { AppError } from '../../errors.ts';
import { given, hookOf, number, run, type Api, type Fields } from './api.ts';

const pagesDefault = 10;
/** Starts that a crawl may have. */
const listMax = 10_000;

export const crawl: Api = async (call, input) => {
  const out = await run<{ jobId: string }>(call, 'crawl_site', {
    ...given({
      url: input.url,
      maxPages: pagesOf(input),
      schema: input.schema,
      maxDepth: number(input.max_depth),
      include: input.include_paths,
      exclude: input.exclude_paths,
      timeMsMax: number(input.timeout_ms),
      includeSelectors: input.list_selector === undefined ? undefined : [input.list_selector],
    }),
    ...numbered(input),
    ...hookOf(input),
  });
  const notice = unused(input).join(' ');
  return {
    job_id: out.jobId,
    status: 'processing',
    poll_url: `/v1/jobs/${out.jobId}`,
    ...(notice ? { notice } : {}),
  };
};

const paginationOf = ({ pagination }: Fields): Fields => (pagination ?? {}) as Fields;

/** An item of ours is a page. */
function pagesOf(input: Fields): number {
  const pages = number(input.max_pages) ?? number(paginationOf(input).max_pages) ?? pagesDefault;
  return Math.min(pages, number(input.max_items) ?? pages);
}

/** The start, then the pages of the pattern from the second on: a list, and no links. */
function numbered(input: Fields): Fields {
  const { type, pattern } = paginationOf(input);
  if (type !== 'url_pattern') return {};
  if (typeof pattern !== 'string' || !pattern.includes('{page}')) {
    throw new AppError('invalidInput', 'pagination.pattern has no {page}.', {
      hint: 'Such as "https://example.com/list?page={page}".',
    });
  }
  const length = Math.min(Math.max(pagesOf(input), 1), listMax) - 1;
  const others = Array.from({ length }, (_, i) => {
    const address = pattern.replaceAll('{page}', String(i + 2));
    return URL.parse(address, String(input.url))?.href ?? address;
  });
  return { urls: others, maxDepth: 0, sitemap: 'skip' };
}

function unused(input: Fields): string[] {
  const { type, selector } = paginationOf(input);
  const { prompt, proxy, list_selector: list, schema } = input;
  const followed = type === 'next_button' || (type === undefined && selector !== undefined);
  return [
    ...(followed ? ['pagination.selector was not used: every link of the site is followed.'] : []),
    ...(type === 'infinite_scroll' ? ['infinite_scroll was not used: see browse.'] : []),
    ...(list !== undefined && schema !== undefined
      ? ['list_selector chose the text of the pages; the schema was filled from the whole of each.']
      : []),
    ...(prompt === undefined ? [] : ['prompt was not used: give a schema.']),
    ...(proxy === undefined || proxy === 'none' ? [] : ['proxy was not used.']),
  ];
}
