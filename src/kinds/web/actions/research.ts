// pipeline (search, then data from each page) and agent (questions, pages, one merged answer) as jobs with visible
// steps. Bounded by credits and sources; a page that fails is an item with an error, never a reason to fail the rest.
import { AppError } from '../../../errors.ts';
import type { JobError } from '../../../jobs/job.ts';
import type { Outcome, Run } from '../../../jobs/kind.ts';
import type { SelectorRule } from '../extract/lookup.ts';
import { loadPage } from '../fetch/load.ts';
import { sameUrl } from '../search/same-url.ts';
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
  const trail = await Trail.of(run, services, input.maxCredits ?? Infinity);
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
    ...ending(run, trail, unread),
    ...(found.notice === undefined ? {} : { notice: found.notice }),
  };
  return outcomeOf(run, trail, result, items.length > 0 ? undefined : nothing(items, found.notice));
}

/** What every such job ends with: its steps, its price, and what it left unread for want of credits or of time. */
function ending(run: Run, { steps, credits, short }: Trail, unread: readonly string[]) {
  return {
    steps,
    creditsUsed: credits,
    stopReason: stopOf(run) ?? short ?? 'done',
    ...(unread.length > 0 ? { unread } : {}),
  };
}

const stops = { cancel: 'cancelled', timeout: 'timeout' } as const;

/** Somebody ends the job here: what was read stays. A server that ends leaves the job to the next one. */
function stopOf({ signal }: Run): 'cancelled' | 'timeout' | undefined {
  return signal.aborted ? stops[signal.reason as keyof typeof stops] : undefined;
}

function outcomeOf(run: Run, trail: Trail, result: object, error: JobError | undefined): Outcome {
  // Costs of attempts are added up, and the trail has the credits of all of them.
  const more = { result, cost: trail.credits - (run.job.cost ?? 0) };
  const stop = stopOf(run);
  if (stop) return { type: stop === 'timeout' ? 'timed_out' : stop, ...more };
  return error ? { type: 'failed', error, retry: false, ...more } : { type: 'completed', ...more };
}

function nothing(items: readonly Item[], notice: string | undefined): JobError {
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
  const trail = await Trail.of(run, services, input.maxCredits);
  const prices = { search: creditTable.agentSearch, page: creditTable.agentPage };
  const means = { trail, prices, services };
  const rows: Listed[] = distinct((input.urls ?? []).map((url) => ({ url, title: url })));
  const notices: string[] = [];
  if (!input.onlyUrls && rows.length < input.maxSources) {
    for (const query of queriesOf(input.prompt)) {
      if (rows.length > 0 && !canSearch(query, means)) break;
      const found = await findRows(run, query, searchRows, means);
      rows.splice(0, rows.length, ...distinct([...rows, ...found.rows]));
      if (found.notice !== undefined) notices.push(found.notice);
      if (rows.length >= input.maxSources * 2) break;
    }
  }
  const wish = { ...(input.schema ? { schema: input.schema } : {}), prompt: input.prompt };
  const wanted = rows.slice(0, input.maxSources);
  const { items, unread } = await readAll(run, wanted, wish, means);
  const good = items.filter(({ error }) => error === undefined);
  // Two addresses that lead to one page are one voice.
  const sourced = distinct(good)
    .filter(({ data }) => data !== undefined)
    .map(({ url, data }): Sourced => ({ url, data }));
  const merged = input.schema ? merge(sourced) : undefined;
  const texts = items.flatMap(({ text, error }, i) =>
    error === undefined ? [{ number: i + 1, text: text ?? '' }] : [],
  );
  const merging = {
    phase: 'merge',
    detail: `${good.length} of ${items.length} sources`,
    ok: good.length > 0,
    credits: 0,
  } as const;
  if (!stopOf(run)) await trail.note(merging, { key: 'merge' });
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
    ...ending(run, trail, unread),
    ...(notices.length > 0 ? { notice: notices[0] } : {}),
  };
  return outcomeOf(run, trail, result, good.length > 0 ? undefined : nothing(items, notices[0]));
}

function distinct<T extends { url: string }>(rows: readonly T[]): T[] {
  const byUrl = new Map<string, T>();
  for (const row of rows) if (!byUrl.has(sameUrl(row.url))) byUrl.set(sameUrl(row.url), row);
  return [...byUrl.values()];
}

/** What the steps are taken with, and what each costs. */
interface Means {
  trail: Trail;
  prices: { search: number; page: number };
  services: Services;
}

interface FoundRows {
  rows: SearchRow[];
  notice?: string | undefined;
}

/** A search without a page to read after it would be money for nothing. */
const canSearch = (query: string, { trail, prices }: Means): boolean =>
  trail.known(searchKey(query)) !== undefined || trail.affords(prices.search + prices.page);

const searchKey = (query: string): string => `search ${query}`;

async function findRows(run: Run, query: string, count: number, means: Means): Promise<FoundRows> {
  const { trail, prices, services } = means;
  const key = searchKey(query);
  const known = trail.known<FoundRows>(key);
  if (known || stopOf(run)) return known ?? { rows: [] };
  const kept = prices.search;
  if (!canSearch(query, means) || !(await trail.reserve(kept))) {
    trail.short ??= 'credits';
    return { rows: [], notice: 'The credits do not pay for a search and a page.' };
  }
  try {
    const { rows, notice } = await services
      .searcher(run.job.owner)
      .search({ query, kind: 'web', count }, run.signal);
    const found = { rows, ...(notice === undefined ? {} : { notice }) };
    const detail = `"${query}": ${rows.length} results`;
    const step = { phase: 'search', detail, ok: rows.length > 0, credits: kept } as const;
    await trail.note(step, { key, kept, found });
    return found;
  } catch (error) {
    if (stopOf(run)) return { rows: [] };
    run.signal.throwIfAborted();
    // That no engine answered costs nothing, here as in a search of its own.
    const { message } = error as Error;
    const step = { phase: 'search', detail: message.slice(0, 300), ok: false, credits: 0 } as const;
    const found = { rows: [], notice: message };
    await trail.note(step, { key, kept, found });
    return found;
  }
}

interface Wish {
  schema?: unknown;
  prompt?: string | undefined;
  selectors?: Record<string, SelectorRule> | undefined;
}

type Listed = Pick<SearchRow, 'url' | 'title'>;

/** Three at a time, in order of the results, until the credits are used up or somebody stops it. */
async function readAll(
  run: Run,
  rows: readonly Listed[],
  wish: Wish,
  means: Means,
): Promise<{ items: Item[]; unread: string[] }> {
  const { trail, prices, services } = means;
  // With a model each page may cost more; what is not needed is given back.
  const model = wish.schema && services.settings.model ? creditTable.extractWithModel : 0;
  const kept = prices.page + model;
  const items: (Item | undefined)[] = rows.map(({ url }) => trail.known<Item>(readKey(url)));
  const waiting = rows.flatMap((row, i) => (items[i] ? [] : [{ row, i }]));
  const worker = async () => {
    for (let next = waiting.shift(); next && !stopOf(run); next = waiting.shift()) {
      run.signal.throwIfAborted();
      if (!(await trail.reserve(kept))) return;
      items[next.i] = await readOne(run, next.row, wish, { ...means, kept });
    }
  };
  await Promise.all(Array.from({ length: pagesAtOnce }, worker));
  const unread = rows.filter((_, i) => !items[i]).map(({ url }) => url);
  return { items: items.filter((item) => item !== undefined), unread };
}

const readKey = (url: string): string => `read ${url}`;

/** Undefined: it was stopped meanwhile. */
async function readOne(
  run: Run,
  row: Listed,
  wish: Wish,
  { trail, prices, services, kept }: Means & { kept: number },
): Promise<Item | undefined> {
  const key = readKey(row.url);
  try {
    const { item, model, bytes } = await readItem(run, row, wish, services);
    const credits = prices.page + model;
    const step = { phase: 'read', detail: item.url, ok: true, credits } as const;
    await trail.note(step, { key, kept, found: item, bytes });
    return item;
  } catch (error) {
    if (stopOf(run)) return undefined;
    run.signal.throwIfAborted();
    if (!(error instanceof AppError)) services.log.warn('a page could not be read', { error });
    const message = error instanceof AppError ? error.message : 'It could not be read.';
    const item = { url: row.url, title: row.title, error: message };
    // A page that gave nothing costs a pipeline nothing; an agent pays for what it tried.
    const credits = run.job.action === 'pipeline' ? 0 : prices.page;
    const detail = `${row.url}: ${message}`;
    await trail.note({ phase: 'read', detail, ok: false, credits }, { key, kept, found: item });
    return item;
  }
}

async function readItem(
  run: Run,
  row: Listed,
  { schema, selectors, prompt }: Wish,
  services: Services,
): Promise<{ item: Item; model: number; bytes: number }> {
  const { signal } = run;
  const load = { url: row.url, formats: ['text'] as const, jobId: run.job.id, signal };
  const loaded = await loadPage({ ...load, timeoutMs: 20_000 }, services);
  // The question in words is only for a model; without one, what the page states is all there is.
  const words = services.settings.model && prompt !== undefined ? { prompt } : {};
  const made: Extracted | undefined = schema
    ? await extracted(htmlOf(loaded), loaded.url, { schema, selectors, ...words }, services, signal)
    : undefined;
  const data = made
    ? { data: made.data, fields: made.fields, valid: made.valid, missing: made.missing }
    : {};
  const title = loaded.page.title ?? row.title;
  const text = (loaded.page.text ?? '').slice(0, textCharsMax);
  return {
    item: { url: loaded.url, title, text, ...data },
    model: Math.max(0, (made?.creditsUsed ?? creditTable.extract) - creditTable.extract),
    bytes: loaded.bytes,
  };
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
