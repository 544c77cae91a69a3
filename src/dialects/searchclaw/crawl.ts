// SearchClaw's crawl with the options of its HTTP API. Without `pagination` it follows links, with it only the described pages.
// The response names options that have no effect.
import { crawlSite } from '../../kinds/web/contracts.ts';
import { textOf } from '../../runtime/json.ts';
import { AppError } from '../../errors.ts';
import { hookOf } from './api.ts';
import { given, number, run, type Api, type Fields } from './call.ts';

const pagesDefault = 10;
/** Maximum number of start URLs. */
const maxList = 10_000;

export const crawl: Api = async (call, input) => {
  const out = await run(call, crawlSite, {
    // SearchClaw renders every page. Here only pages that are empty without scripts are rendered.
    render: 'auto',
    ...given({
      url: input.url,
      maxPages: pagesOf(input),
      schema: input.schema,
      maxDepth: number(input.max_depth),
      include: input.include_paths,
      exclude: input.exclude_paths,
      pageTimeoutMs: number(input.timeout_ms),
      includeSelectors: input.list_selector === undefined ? undefined : [input.list_selector],
    }),
    ...wayOf(input),
    ...hookOf(input),
  });
  const notice = unused(input).join(' ');
  return {
    job_id: out.id,
    status: 'processing',
    poll_url: `/v1/jobs/${out.id}`,
    ...(notice ? { notice } : {}),
  };
};

interface Pagination {
  type?: string;
  selector?: string;
  pattern?: string;
  max_pages?: unknown;
}

/** The default pagination type is the button. */
function paginationOf({ pagination }: Fields): Pagination | undefined {
  if (pagination === undefined || pagination === null) return undefined;
  return { type: 'next_button', ...(pagination as Pagination) };
}

/** One item is one page. */
function pagesOf(input: Fields): number {
  const pages = number(input.max_pages) ?? number(paginationOf(input)?.max_pages) ?? pagesDefault;
  return Math.min(pages, number(input.max_items) ?? pages);
}

function wayOf(input: Fields): Fields {
  const pagination = paginationOf(input);
  switch (pagination?.type) {
    case undefined:
      return {};
    case 'next_button':
      return { linkSelectors: [pagination?.selector ?? '[rel~="next"]'], sitemap: 'skip' };
    case 'url_pattern':
      return numbered(input, pagination?.pattern);
    case 'infinite_scroll':
      return scrolled(pagesOf(input));
    default:
      throw new AppError('invalidInput', `pagination.type cannot be ${pagination?.type}.`, {
        hint: 'Use next_button, url_pattern or infinite_scroll.',
      });
  }
}

/** The start page, then the pages of the pattern from the second on. Links are not followed. */
function numbered(input: Fields, pattern: unknown): Fields {
  if (typeof pattern !== 'string' || !pattern.includes('{page}')) {
    throw new AppError('invalidInput', 'pagination.pattern has no {page}.', {
      hint: 'Such as "https://example.com/list?page={page}".',
    });
  }
  const length = Math.min(Math.max(pagesOf(input), 1), maxList) - 1;
  const others = Array.from({ length }, (_, i) => {
    const address = pattern.replaceAll('{page}', String(i + 2));
    return URL.parse(address, textOf(input.url))?.href ?? address;
  });
  return { urls: others, maxDepth: 0, sitemap: 'skip' };
}

/** Scrolls one page that loads more at its end: a given number of times, or until nothing new appears. */
const scrolled = (times: number): Fields => ({
  maxPages: 1,
  maxDepth: 0,
  sitemap: 'skip',
  actions: [{ type: 'evaluate', script: scrollScript(times) }],
});

/** Waits up to 1 s for new content per scroll and 20 s in total, the limit of a page. */
const scrollScript = (times: number): string => `(async () => {
  const page = document.documentElement;
  const frame = () => new Promise(requestAnimationFrame);
  let now = await frame();
  for (let n = 1, end = now + 20000; n < ${times} && now < end; n++) {
    const height = page.scrollHeight;
    const giveUpAt = now + 1000;
    window.scrollTo(0, height);
    while (page.scrollHeight === height && now < giveUpAt) now = await frame();
    if (page.scrollHeight === height) return;
  }
})()`;

function unused(input: Fields): string[] {
  const { prompt, proxy, list_selector: list, schema } = input;
  return [
    ...(list !== undefined && schema !== undefined
      ? ['list_selector chose the text of the pages; the schema was filled from the whole of each.']
      : []),
    ...(prompt === undefined ? [] : ['prompt was not used: give a schema.']),
    ...(proxy === undefined || proxy === 'none' ? [] : ['proxy was not used.']),
  ];
}
