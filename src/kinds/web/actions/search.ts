// search, news, images, suggest, answer (passages of the best pages) and full text over what was crawled here.
import type { Run } from '../../../jobs/kind.ts';
import { isoTime } from '../../../runtime/clock.ts';
import { loadPage } from '../fetch/load.ts';
import type { SearchAnswer, SearchRow } from '../search/types.ts';
import type { Services } from '../services.ts';
import { creditTable } from '../usage/credits.ts';
import { searchCharge } from '../usage/prices.ts';
import type { ActionInput } from './inputs.ts';
import { charge, given } from './pages.ts';
import { bestPassages } from './passages.ts';

const answerPages = 5;
const answerCharsMax = 12_000;

export async function searchAction(run: Run, input: ActionInput<'search'>, services: Services) {
  const { type, query } = input;
  const creditsUsed = creditTable[searchCharge[type]];
  const answer = await answerOf(run, input, services);
  await charge(run, services, searchCharge[type], { creditsUsed, bytes: 0, pages: 0 });
  return { query, type, ...answer, creditsUsed };
}

async function answerOf(
  run: Run,
  input: ActionInput<'search'>,
  services: Services,
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
  const wish = {
    query,
    kind,
    count,
    ...given({ offset, language, country, safesearch, freshness }),
  } as const;
  const found = await searcher.search(wish, run.signal);
  const { rows, suggestions, infobox, engines, notice } = found;
  const base = { rows, suggestions, engines, ...given({ infobox, notice }) };
  return input.type === 'answer' ? { ...base, ...(await passages(run, found, services)) } : base;
}

/** Reads the best pages and keeps the passages that speak of the question, each with its source's number. */
async function passages(run: Run, found: SearchAnswer, services: Services): Promise<object> {
  const rows = found.rows.slice(0, answerPages);
  const read = await Promise.all(
    rows.map(async (row, i) => ({ row, number: i + 1, ...(await textOf(run, row, services)) })),
  );
  const chosen = bestPassages(
    found.query,
    read.map(({ number, text }) => ({ number, text })),
    answerCharsMax,
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
  services: Services,
): Promise<{ text: string; error?: string }> {
  try {
    const wish = {
      url: row.url,
      formats: ['text'] as const,
      jobId: run.job.id,
      signal: run.signal,
    };
    const { page } = await loadPage({ ...wish, render: 'never', timeoutMs: 10_000 }, services);
    return { text: page.text ?? row.snippet };
  } catch (error) {
    run.signal.throwIfAborted();
    return { text: row.snippet, error: (error as Error).message.slice(0, 200) };
  }
}
