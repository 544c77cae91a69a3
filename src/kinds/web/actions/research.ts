// pipeline (search, then data from each page) and agent (questions, pages, one merged answer) as jobs with visible
// steps. Bounded by credits and sources; a page that fails is an item with an error, never a reason to fail the rest.
import type { SelectorRule } from '../extract/lookup.ts';
import { AppError } from '../../../errors.ts';
import type { Outcome, Run } from '../../../jobs/kind.ts';
import { loadPage } from '../fetch/load.ts';
import type { SearchRow } from '../search/types.ts';
import type { Services } from '../services.ts';
import { creditTable } from '../usage/credits.ts';
import type { ActionInput } from './inputs.ts';
import { merge, type Sourced } from './merge.ts';
import { extracted, htmlOf, type Extracted } from './pages.ts';
import { bestPassages } from './passages.ts';
import { Trail } from './trail.ts';

interface Item {
  url: string;
  title?: string;
  data?: unknown;
  /** Each value with where on the page it stands. */
  fields?: unknown[];
  valid?: boolean;
  missing?: unknown[];
  error?: string;
  text?: string;
}

const pagesAtOnce = 3;
const textCharsMax = 8000;
const contextCharsMax = 12_000;
const queriesMax = 3;
const searchRows = 10;

export async function pipelineAction(
  run: Run,
  input: ActionInput<'pipeline'>,
  services: Services,
): Promise<Outcome> {
  const trail = new Trail(run, services.usage, input.maxCredits ?? Infinity);
  const prices = { search: creditTable.pipelineSearch, page: creditTable.pipelineExtraction };
  const found = await findRows(run, input.query, input.maxResults, { trail, prices, services });
  const wanted = found.rows.slice(0, input.extractFrom);
  const { items, unread } = await readAll(run, wanted, input, { trail, prices, services });
  const done = items.filter(({ error }) => error === undefined).length;
  const result = {
    query: input.query,
    items: items.map(({ text: _text, ...item }) => item),
    extracted: done,
    failed: items.length - done,
    results: found.rows.map(({ title, url, snippet, engine }) => ({ title, url, snippet, engine })),
    ...ending(trail, unread),
    ...(found.notice === undefined ? {} : { notice: found.notice }),
  };
  const cost = trail.credits;
  if (items.length > 0) return { type: 'completed', result, cost };
  return { type: 'failed', error: nothing(items, found.notice), result, retry: false, cost };
}

/** What every such job ends with: its steps, its price, and what it left unread for want of credits. */
function ending({ steps, credits, short }: Trail, unread: readonly string[]) {
  return {
    steps,
    creditsUsed: credits,
    stopReason: short ?? 'done',
    ...(unread.length > 0 ? { unread } : {}),
  };
}

function nothing(items: readonly Item[], notice: string | undefined) {
  const what =
    items.length === 0 ? 'No source was found.' : `None of ${items.length} sources could be read.`;
  return {
    code: 'nothingFound',
    message: notice === undefined ? what : `${what} ${notice}`.slice(0, 500),
    hint: 'Give `urls` (run_agent), configure a search engine (web.search in config.json), or raise maxCredits. The steps show what was tried.',
  };
}

export async function agentAction(
  run: Run,
  input: ActionInput<'agent'>,
  services: Services,
): Promise<Outcome> {
  const trail = new Trail(run, services.usage, input.maxCredits);
  const prices = { search: creditTable.agentSearch, page: creditTable.agentPage };
  const means = { trail, prices, services };
  const rows: Pick<SearchRow, 'url' | 'title' | 'snippet'>[] = (input.urls ?? []).map((url) => ({
    url,
    title: url,
    snippet: '',
  }));
  const notices: string[] = [];
  if (!input.onlyUrls && rows.length < input.maxSources) {
    for (const query of queriesOf(input.prompt)) {
      // A search without a page to read after it would be money for nothing.
      if (!trail.affords(prices.search + prices.page)) break;
      const found = await findRows(run, query, searchRows, means);
      const known = new Set(rows.map(({ url }) => url));
      rows.push(...found.rows.filter(({ url }) => !known.has(url)));
      if (found.notice !== undefined) notices.push(found.notice);
      if (rows.length >= input.maxSources * 2) break;
    }
  }
  const wish = { ...(input.schema ? { schema: input.schema } : {}), prompt: input.prompt };
  const wanted = rows.slice(0, input.maxSources);
  const { items, unread } = await readAll(run, wanted, wish, means);
  const good = items.filter(({ error }) => error === undefined);
  const sourced = good
    .filter(({ data }) => data !== undefined)
    .map(({ url, data }): Sourced => ({ url, data }));
  const merged = input.schema ? merge(sourced) : undefined;
  const texts = items.flatMap(({ text, error }, i) =>
    error === undefined ? [{ number: i + 1, text: text ?? '' }] : [],
  );
  await trail.note({
    phase: 'merge',
    detail: `${good.length} of ${items.length} sources`,
    ok: good.length > 0,
    credits: 0,
  });
  const result = {
    ...(merged
      ? { data: merged.data, provenance: merged.provenance, conflicts: merged.conflicts }
      : {}),
    context: bestPassages(input.prompt, texts, contextCharsMax)
      .map(({ number, text }) => `[${number}] ${text}`)
      .join('\n\n'),
    sources: items.map(({ url, title, error }, i) => ({
      number: i + 1,
      url,
      ...(title ? { title } : {}),
      ...(error ? { error } : {}),
    })),
    ...ending(trail, unread),
    ...(notices.length > 0 ? { notice: notices[0] } : {}),
  };
  const cost = trail.credits;
  if (good.length > 0) return { type: 'completed', result, cost };
  return { type: 'failed', error: nothing(items, notices[0]), result, retry: false, cost };
}

/** What the steps are taken with, and what each costs. */
interface Means {
  trail: Trail;
  prices: { search: number; page: number };
  services: Services;
}

async function findRows(run: Run, query: string, count: number, means: Means) {
  const { trail, prices, services } = means;
  const credits = prices.search;
  if (!(await trail.reserve(credits)))
    return { rows: [], notice: 'The credits do not allow a search.' };
  try {
    const answer = await services
      .searcher(run.job.owner)
      .search({ query, kind: 'web', count }, run.signal);
    await trail.note(
      {
        phase: 'search',
        detail: `"${query}": ${answer.rows.length} results`,
        ok: answer.rows.length > 0,
        credits,
      },
      credits,
    );
    return { rows: answer.rows, notice: answer.notice };
  } catch (error) {
    run.signal.throwIfAborted();
    await trail.note(
      {
        phase: 'search',
        detail: (error as Error).message.slice(0, 300),
        ok: false,
        credits,
      },
      credits,
    );
    return { rows: [], notice: (error as Error).message };
  }
}

/** Three at a time, in order of the results, until the credits are used up. */
async function readAll(
  run: Run,
  rows: readonly Pick<SearchRow, 'url' | 'title'>[],
  wish: {
    schema?: unknown;
    prompt?: string | undefined;
    selectors?: Record<string, SelectorRule> | undefined;
  },
  means: Means,
): Promise<{ items: Item[]; unread: string[] }> {
  const { trail, prices, services } = means;
  // With a model each page may cost more; what is not needed is given back.
  const model = wish.schema && services.settings.model ? creditTable.extractWithModel : 0;
  const kept = prices.page + model;
  const items: Item[] = [];
  const waiting = rows.map((row, i) => ({ row, i }));
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      run.signal.throwIfAborted();
      if (!(await trail.reserve(kept))) return;
      items[next.i] = await readOne(run, next.row, wish, { ...means, kept });
    }
  };
  await Promise.all(Array.from({ length: pagesAtOnce }, worker));
  const unread = rows.filter((_, i) => !items[i]).map(({ url }) => url);
  return { items: items.filter(Boolean), unread };
}

async function readOne(
  run: Run,
  row: Pick<SearchRow, 'url' | 'title'>,
  wish: {
    schema?: unknown;
    prompt?: string | undefined;
    selectors?: Record<string, SelectorRule> | undefined;
  },
  means: Means & { kept: number },
): Promise<Item> {
  const { trail, prices, services, kept } = means;
  try {
    const load = {
      url: row.url,
      formats: ['text'] as const,
      jobId: run.job.id,
      signal: run.signal,
    };
    const loaded = await loadPage({ ...load, timeoutMs: 20_000 }, services);
    const { schema, selectors } = wish;
    // The question in words is only for a model; without one, what the page states is all there is.
    const words =
      services.settings.model && wish.prompt !== undefined ? { prompt: wish.prompt } : {};
    const made: Extracted | undefined = schema
      ? await extracted(
          htmlOf(loaded),
          loaded.url,
          { schema, selectors, ...words },
          services,
          run.signal,
        )
      : undefined;
    const model = Math.max(0, (made?.creditsUsed ?? creditTable.extract) - creditTable.extract);
    const credits = prices.page + model;
    await trail.note({ phase: 'read', detail: loaded.url, ok: true, credits }, kept);
    const title = loaded.page.title ?? row.title;
    const text = (loaded.page.text ?? '').slice(0, textCharsMax);
    const data = made
      ? { data: made.data, fields: made.fields, valid: made.valid, missing: made.missing }
      : {};
    return { url: loaded.url, title, text, ...data };
  } catch (error) {
    run.signal.throwIfAborted();
    const message = error instanceof AppError ? error.message : 'It could not be read.';
    // A page that gave nothing costs a pipeline nothing; an agent pays for what it tried.
    const credits = run.job.action === 'pipeline' ? 0 : prices.page;
    const detail = `${row.url}: ${message}`;
    await trail.note({ phase: 'read', detail, ok: false, credits }, kept);
    return { url: row.url, title: row.title, error: message };
  }
}

const fillers = new Set(
  'a an and are as at by can could do does find for from get give how i in into is it list me of on or please show tell that the their there these this to was what when where which who why will with would you'.split(
    ' ',
  ),
);

/** The prompt as it is, then its telling words. */
function queriesOf(prompt: string): string[] {
  const whole = prompt.replace(/\s+/g, ' ').trim().slice(0, 300);
  const telling = (whole.match(/[\p{L}\p{N}'-]{2,}/gu) ?? []).filter(
    (word) => !fillers.has(word.toLowerCase()),
  );
  const short = telling.slice(0, 8).join(' ');
  return [...new Set([whole, short].filter(Boolean))].slice(0, queriesMax);
}
