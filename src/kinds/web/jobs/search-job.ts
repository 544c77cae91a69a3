// The search action: web, news, images, suggestions, answers (passages of the best pages) and full text over crawled pages.
import type { Run } from '../../../jobs/kind.ts';
import { isoTime } from '../../../runtime/clock.ts';
import { loadPage } from '../fetch/load.ts';
import type { SearchResult, SearchRow } from '../search/types.ts';
import type { WebDeps } from '../deps.ts';
import { creditTable } from '../billing/credits.ts';
import { searchCharge } from '../billing/prices.ts';
import type { ActionInput } from './inputs.ts';
import { defined } from '../../../runtime/defined.ts';
import { charge } from './page-jobs.ts';
import { bestPassages } from './passages.ts';

const maxSourcePages = 5;
const maxPassageChars = 12_000;

export async function searchAction(run: Run, input: ActionInput<'search'>, services: WebDeps) {
  const { type, query } = input;
  const creditsUsed = creditTable[searchCharge[type]];
  const result = await runSearch(run, input, services);
  await charge(run, services, searchCharge[type], { creditsUsed, bytes: 0, pages: 0 });
  return { query, type, ...result, creditsUsed };
}

async function runSearch(
  run: Run,
  input: ActionInput<'search'>,
  services: WebDeps,
): Promise<object> {
  const { owner } = run.job;
  const searcher = services.searcher(owner);
  if (input.type === 'suggest')
    return { rows: [], ...(await searcher.suggest(input.query, run.signal, input.language)) };
  if (input.type === 'crawled') {
    const window = { limit: input.count, offset: input.offset ?? 0 };
    const hits = await services.pages.search(owner, input.query, window);
    const rows = hits.map(({ url, title, snippet, jobId, at }, i) => ({
      title: title ?? url,
      url,
      snippet,
      jobId,
      crawledAt: isoTime(at),
      engine: 'local',
      position: i + 1,
    }));
    return { rows, engines: [{ engine: 'local', rows: rows.length, ms: 0 }] };
  }
  const { query, count, offset, language, country, safesearch, freshness } = input;
  const kind = input.type === 'answer' ? 'web' : input.type;
  const request = {
    query,
    kind,
    count,
    ...defined({ offset, language, country, safesearch, freshness }),
  } as const;
  const found = await searcher.search(request, run.signal);
  const { rows, suggestions, infobox, engines, notice } = found;
  const base = { rows, suggestions, engines, ...defined({ infobox, notice }) };
  return input.type === 'answer' ? { ...base, ...(await passages(run, found, services)) } : base;
}

/** Reads the best pages and returns the passages that match the question, each with its source number. */
async function passages(run: Run, found: SearchResult, services: WebDeps): Promise<object> {
  const rows = found.rows.slice(0, maxSourcePages);
  const read = await Promise.all(
    rows.map(async (row, i) => ({ row, number: i + 1, ...(await textOf(run, row, services)) })),
  );
  const chosen = bestPassages(
    found.query,
    read.map(({ number, text }) => ({ number, text })),
    maxPassageChars,
  );
  return {
    context: chosen.map(({ number, text }) => `[${number}] ${text}`).join('\n\n'),
    sources: read.map(({ row, number, error }) => ({
      number,
      title: row.title,
      url: row.url,
      snippet: row.snippet,
      ...(error === undefined ? {} : { error }),
    })),
  };
}

async function textOf(
  run: Run,
  row: SearchRow,
  services: WebDeps,
): Promise<{ text: string; error?: string }> {
  try {
    const request = {
      url: row.url,
      formats: ['markdown'] as const,
      jobId: run.job.id,
      signal: run.signal,
    };
    const { page } = await loadPage({ ...request, render: 'never', timeoutMs: 10_000 }, services);
    return { text: page.markdown || row.snippet };
  } catch (error) {
    run.signal.throwIfAborted();
    return { text: row.snippet, error: (error as Error).message.slice(0, 200) };
  }
}
