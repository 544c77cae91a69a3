// The pipeline action (search, then data from each page) and the agent action (search, read, merge). Both report their
// steps and are limited by credits and sources. A page that fails becomes an item with an error and does not fail the job.
import { AppError } from '../../../errors.ts';
import type { JobError } from '../../../jobs/job.ts';
import type { Outcome, Run } from '../../../jobs/kind.ts';
import type { SelectorRule } from '../extract/lookup.ts';
import { loadPage } from '../fetch/load.ts';
import { sameUrl } from '../search/same-url.ts';
import type { SearchRow } from '../search/types.ts';
import type { WebDeps } from '../deps.ts';
import { creditTable } from '../billing/credits.ts';
import type { ActionInput } from './inputs.ts';
import { merge, type Sourced } from './merge-sources.ts';
import { extractData, htmlOf, type Extracted } from './page-jobs.ts';
import { bestPassages } from './passages.ts';
import { StepLog } from './step-log.ts';

interface Item {
  url: string;
  title?: string;
  data?: unknown;
  /** Each value with its position on the page. */
  fields?: unknown[];
  valid?: boolean;
  missing?: unknown[];
  error?: string;
  text?: string;
}

const concurrentPages = 3;
const maxTextChars = 8000;
const maxContextChars = 12_000;
const maxQueries = 3;
const searchRows = 10;

export async function pipelineAction(
  run: Run,
  input: ActionInput<'pipeline'>,
  services: WebDeps,
): Promise<Outcome> {
  const log = await StepLog.of(run, services, input.maxCredits ?? Infinity);
  const prices = { search: creditTable.pipelineSearch, page: creditTable.pipelineExtraction };
  const found = await findRows(run, input.query, input.maxResults, { log, prices, services });
  const wanted = found.rows.slice(0, input.extractFrom);
  const { items, unread } = await readAll(run, wanted, input, { log, prices, services });
  const done = items.filter(({ error }) => error === undefined).length;
  const result = {
    query: input.query,
    items: items.map(({ text: _text, ...item }) => item),
    extracted: done,
    failed: items.length - done,
    results: found.rows.map(({ title, url, snippet, engine }) => ({ title, url, snippet, engine })),
    ...endSummary(run, log, unread),
    ...(found.notice === undefined ? {} : { notice: found.notice }),
  };
  return outcomeOf(
    run,
    log,
    result,
    items.length > 0 ? undefined : nothingFoundError(items, found.notice),
  );
}

/** Common result fields: steps, price, stop reason and unread URLs. */
function endSummary(run: Run, { steps, credits, shortage }: StepLog, unread: readonly string[]) {
  return {
    steps,
    creditsUsed: credits,
    stopReason: stopReasonOf(run) ?? shortage ?? 'done',
    ...(unread.length > 0 ? { unread } : {}),
  };
}

const stops = { cancel: 'cancelled', timeout: 'timeout' } as const;

/** Set when the job was cancelled or timed out: partial results are kept. Undefined on shutdown, when another server continues. */
function stopReasonOf({ signal }: Run): 'cancelled' | 'timeout' | undefined {
  return signal.aborted ? stops[signal.reason as keyof typeof stops] : undefined;
}

function outcomeOf(run: Run, log: StepLog, result: object, error: JobError | undefined): Outcome {
  // The core adds up the cost of all attempts, but the step log already has the total.
  const more = { result, cost: log.credits - (run.job.cost ?? 0) };
  const stop = stopReasonOf(run);
  if (stop) return { type: stop === 'timeout' ? 'timed_out' : stop, ...more };
  return error ? { type: 'failed', error, retry: false, ...more } : { type: 'completed', ...more };
}

function nothingFoundError(items: readonly Item[], notice: string | undefined): JobError {
  const what =
    items.length === 0 ? 'No source was found.' : `None of ${items.length} sources could be read.`;
  return {
    code: 'nothingFound',
    message: notice === undefined ? what : `${what} ${notice}`.slice(0, 500),
    hint: 'Pass `urls` (run_agent), configure a search engine (web.search in config.json), or raise maxCredits. The steps show what was tried.',
  };
}

export async function agentAction(
  run: Run,
  input: ActionInput<'agent'>,
  services: WebDeps,
): Promise<Outcome> {
  const log = await StepLog.of(run, services, input.maxCredits);
  const prices = { search: creditTable.agentSearch, page: creditTable.agentPage };
  const research = { log, prices, services };
  const rows: Listed[] = distinct((input.urls ?? []).map((url) => ({ url, title: url })));
  const notices: string[] = [];
  if (!input.onlyUrls && rows.length < input.maxSources) {
    for (const query of queriesOf(input.prompt)) {
      if (rows.length > 0 && !canSearch(query, research)) break;
      const found = await findRows(run, query, searchRows, research);
      rows.splice(0, rows.length, ...distinct([...rows, ...found.rows]));
      if (found.notice !== undefined) notices.push(found.notice);
      if (rows.length >= input.maxSources * 2) break;
    }
  }
  const options = { ...(input.schema ? { schema: input.schema } : {}), prompt: input.prompt };
  const wanted = rows.slice(0, input.maxSources);
  const { items, unread } = await readAll(run, wanted, options, research);
  const good = items.filter(({ error }) => error === undefined);
  // Two URLs of the same page count as one source.
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
  if (!stopReasonOf(run)) await log.record(merging, { key: 'merge' });
  const result = {
    ...(merged
      ? { data: merged.data, provenance: merged.provenance, conflicts: merged.conflicts }
      : {}),
    context: bestPassages(input.prompt, texts, maxContextChars)
      .map(({ number, text }) => `[${number}] ${text}`)
      .join('\n\n'),
    sources: items.map(({ url, title, error }, i) => ({
      number: i + 1,
      url,
      ...(title ? { title } : {}),
      ...(error ? { error } : {}),
    })),
    ...endSummary(run, log, unread),
    ...(notices.length > 0 ? { notice: notices[0] } : {}),
  };
  return outcomeOf(
    run,
    log,
    result,
    good.length > 0 ? undefined : nothingFoundError(items, notices[0]),
  );
}

function distinct<T extends { url: string }>(rows: readonly T[]): T[] {
  const byUrl = new Map<string, T>();
  for (const row of rows) if (!byUrl.has(sameUrl(row.url))) byUrl.set(sameUrl(row.url), row);
  return [...byUrl.values()];
}

/** Dependencies of the steps, and the price of each step. */
interface ResearchDeps {
  log: StepLog;
  prices: { search: number; page: number };
  services: WebDeps;
}

interface FoundRows {
  rows: SearchRow[];
  notice?: string | undefined;
}

/** A search makes sense only if the credits also cover a page. */
const canSearch = (query: string, { log, prices }: ResearchDeps): boolean =>
  log.find(searchKey(query)) !== undefined || log.canAfford(prices.search + prices.page);

const searchKey = (query: string): string => `search ${query}`;

async function findRows(
  run: Run,
  query: string,
  count: number,
  research: ResearchDeps,
): Promise<FoundRows> {
  const { log, prices, services } = research;
  const key = searchKey(query);
  const known = log.find<FoundRows>(key);
  if (known || stopReasonOf(run)) return known ?? { rows: [] };
  const kept = prices.search;
  if (!canSearch(query, research) || !(await log.reserve(kept))) {
    log.shortage ??= 'credits';
    return { rows: [], notice: 'The remaining credits do not cover a search and a page.' };
  }
  try {
    const { rows, notice } = await services
      .searcher(run.job.owner)
      .search({ query, kind: 'web', count }, run.signal);
    const found = { rows, ...(notice === undefined ? {} : { notice }) };
    const detail = `"${query}": ${rows.length} results`;
    const step = { phase: 'search', detail, ok: rows.length > 0, credits: kept } as const;
    await log.record(step, { key, kept, found });
    return found;
  } catch (error) {
    if (stopReasonOf(run)) return { rows: [] };
    run.signal.throwIfAborted();
    // A failed search costs nothing, as in the search action.
    const { message } = error as Error;
    const step = { phase: 'search', detail: message.slice(0, 300), ok: false, credits: 0 } as const;
    const found = { rows: [], notice: message };
    await log.record(step, { key, kept, found });
    return found;
  }
}

interface ExtractionOptions {
  schema?: unknown;
  prompt?: string | undefined;
  selectors?: Record<string, SelectorRule> | undefined;
}

type Listed = Pick<SearchRow, 'url' | 'title'>;

/** Reads pages concurrently, in order of the results, until the credits are used up or the job stops. */
async function readAll(
  run: Run,
  rows: readonly Listed[],
  options: ExtractionOptions,
  research: ResearchDeps,
): Promise<{ items: Item[]; unread: string[] }> {
  const { log, prices, services } = research;
  // A page may cost more with a model. Unused credits are released.
  const model = options.schema && services.settings.model ? creditTable.extractWithModel : 0;
  const kept = prices.page + model;
  const items: (Item | undefined)[] = rows.map(({ url }) => log.find<Item>(readKey(url)));
  const waiting = rows.flatMap((row, i) => (items[i] ? [] : [{ row, i }]));
  const worker = async () => {
    for (let next = waiting.shift(); next && !stopReasonOf(run); next = waiting.shift()) {
      run.signal.throwIfAborted();
      if (!(await log.reserve(kept))) return;
      items[next.i] = await readOne(run, next.row, options, { ...research, kept });
    }
  };
  await Promise.all(Array.from({ length: concurrentPages }, worker));
  const unread = rows.filter((_, i) => !items[i]).map(({ url }) => url);
  return { items: items.filter((item) => item !== undefined), unread };
}

const readKey = (url: string): string => `read ${url}`;

/** Undefined if the job was stopped in the meantime. */
async function readOne(
  run: Run,
  row: Listed,
  options: ExtractionOptions,
  { log, prices, services, kept }: ResearchDeps & { kept: number },
): Promise<Item | undefined> {
  const key = readKey(row.url);
  try {
    const { item, model, bytes } = await readItem(run, row, options, services);
    const credits = prices.page + model;
    const step = { phase: 'read', detail: item.url, ok: true, credits } as const;
    await log.record(step, { key, kept, found: item, bytes });
    return item;
  } catch (error) {
    if (stopReasonOf(run)) return undefined;
    run.signal.throwIfAborted();
    if (!(error instanceof AppError)) services.log.warn('a page could not be read', { error });
    const message = error instanceof AppError ? error.message : 'The page could not be read.';
    const item = { url: row.url, title: row.title, error: message };
    // A failed page is free in a pipeline. An agent pays for every page it tried.
    const credits = run.job.action === 'pipeline' ? 0 : prices.page;
    const detail = `${row.url}: ${message}`;
    await log.record({ phase: 'read', detail, ok: false, credits }, { key, kept, found: item });
    return item;
  }
}

async function readItem(
  run: Run,
  row: Listed,
  { schema, selectors, prompt }: ExtractionOptions,
  services: WebDeps,
): Promise<{ item: Item; model: number; bytes: number }> {
  const { signal } = run;
  const load = { url: row.url, formats: ['markdown'] as const, jobId: run.job.id, signal };
  const loaded = await loadPage({ ...load, timeoutMs: 20_000 }, services);
  // The prompt is only useful with a model.
  const words = services.settings.model && prompt !== undefined ? { prompt } : {};
  const extraction: Extracted | undefined = schema
    ? await extractData(
        { html: htmlOf(loaded), url: loaded.url },
        { schema, selectors, ...words },
        services,
        signal,
      )
    : undefined;
  const data = extraction
    ? {
        data: extraction.data,
        fields: extraction.fields,
        valid: extraction.valid,
        missing: extraction.missing,
      }
    : {};
  const title = loaded.page.title ?? row.title;
  const text = relevantText(loaded.page.markdown ?? '', prompt);
  return {
    item: { url: loaded.url, title, text, ...data },
    model: Math.max(0, (extraction?.creditsUsed ?? creditTable.extract) - creditTable.extract),
    bytes: loaded.bytes,
  };
}

/** For a long page, the passages that match the prompt. */
function relevantText(markdown: string, prompt: string | undefined): string {
  if (markdown.length <= maxTextChars || prompt === undefined)
    return markdown.slice(0, maxTextChars);
  const passages = bestPassages(prompt, [{ number: 0, text: markdown }], maxTextChars);
  return passages.map(({ text }) => text).join('\n\n') || markdown.slice(0, maxTextChars);
}

const stopWords = new Set(
  'a an and are as at by can could do does find for from get give how i in into is it list me of on or please show tell that the their there these this to was what when where which who why will with would you'.split(
    ' ',
  ),
);

/** Search queries: the prompt itself, then its keywords. */
function queriesOf(prompt: string): string[] {
  const whole = prompt.replace(/\s+/g, ' ').trim().slice(0, 300);
  const keywords = (whole.match(/[\p{L}\p{N}'-]{2,}/gu) ?? []).filter(
    (word) => !stopWords.has(word.toLowerCase()),
  );
  const short = keywords.slice(0, 8).join(' ');
  return [...new Set([whole, short].filter(Boolean))].slice(0, maxQueries);
}
