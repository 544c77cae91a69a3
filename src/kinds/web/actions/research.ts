// pipeline (search, then data from each page) and agent (questions, pages, one merged answer) as jobs with visible
// steps. Bounded by credits and sources; a page that fails is an item with an error, never a reason to fail the rest.
import { AppError } from '../../../errors.ts';
import type { Outcome, Run } from '../../../jobs/kind.ts';
import { loadPage } from '../fetch/load.ts';
import type { SearchRow } from '../search/types.ts';
import type { Services } from '../services.ts';
import { creditTable } from '../usage/credits.ts';
import type { ActionInput } from './inputs.ts';
import { merge, type Sourced } from './merge.ts';
import { extracted, type Extracted } from './pages.ts';
import { bestPassages } from './passages.ts';

export interface Step {
  phase: 'search' | 'read' | 'merge';
  detail: string;
  ok: boolean;
  credits: number;
}

interface Item {
  url: string;
  title?: string;
  data?: unknown;
  valid?: boolean;
  missing?: unknown[];
  error?: string;
  text?: string;
}

const pagesAtOnce = 3;
const textCharsMax = 8000;
const contextCharsMax = 12_000;
const queriesMax = 3;

/** What has been spent and done so far; the job shows it while it runs. */
class Trail {
  readonly steps: Step[] = [];
  credits = 0;
  private readonly run: Run;
  private readonly max: number;

  constructor(run: Run, max: number) {
    this.run = run;
    this.max = max;
  }

  affords(credits: number): boolean {
    return this.credits + credits <= this.max;
  }

  reserve(credits: number): boolean {
    if (!this.affords(credits)) return false;
    this.credits += credits;
    return true;
  }

  async note(step: Step): Promise<void> {
    this.steps.push(step);
    const { length } = this.steps;
    await this.run.report({
      stage: step.phase,
      progress: { done: length, unit: 'steps', message: step.detail.slice(0, 200) },
      facts: { steps: this.steps },
    });
  }
}

export async function pipelineAction(
  run: Run,
  input: ActionInput<'pipeline'>,
  services: Services,
): Promise<Outcome> {
  const budget = Math.min(input.maxCredits ?? Infinity, await services.usage.left(run.job.owner));
  const trail = new Trail(run, budget);
  const { rows, notice } = await findRows(run, input.query, input.maxResults, trail, services);
  const items = await readAll(run, rows.slice(0, input.extractFrom), input, trail, services);
  const { steps, credits } = trail;
  await services.usage.spend(run.job.owner, 'pipeline', { credits, pages: items.length, bytes: 0 });
  const done = items.filter(({ error }) => error === undefined).length;
  const result = {
    query: input.query,
    items: items.map(({ text: _text, ...item }) => item),
    extracted: done,
    failed: items.length - done,
    results: rows.map(({ title, url, snippet, engine }) => ({ title, url, snippet, engine })),
    steps,
    creditsUsed: credits,
    stopReason: trail.affords(1) ? 'done' : 'credits',
    ...(notice === undefined ? {} : { notice }),
  };
  return { type: 'completed', result, cost: credits };
}

export async function agentAction(
  run: Run,
  input: ActionInput<'agent'>,
  services: Services,
): Promise<Outcome> {
  const budget = Math.min(input.maxCredits, await services.usage.left(run.job.owner));
  const trail = new Trail(run, budget);
  const rows: Pick<SearchRow, 'url' | 'title' | 'snippet'>[] = (input.urls ?? []).map((url) => ({
    url,
    title: url,
    snippet: '',
  }));
  const notices: string[] = [];
  if (!input.onlyUrls && rows.length < input.maxSources) {
    for (const query of queriesOf(input.prompt)) {
      if (!trail.affords(creditTable.agentSearch + creditTable.agentPage)) break;
      const found = await findRows(run, query, 10, trail, services);
      const known = new Set(rows.map(({ url }) => url));
      rows.push(...found.rows.filter(({ url }) => !known.has(url)));
      if (found.notice !== undefined) notices.push(found.notice);
      if (rows.length >= input.maxSources * 2) break;
    }
  }
  const wish = { ...(input.schema ? { schema: input.schema } : {}), prompt: input.prompt };
  const items = await readAll(run, rows.slice(0, input.maxSources), wish, trail, services);
  const good = items.filter(({ error }) => error === undefined);
  const sourced = good
    .filter(({ data }) => data !== undefined)
    .map(({ url, data }): Sourced => ({ url, data }));
  const merged = input.schema ? merge(sourced) : undefined;
  const texts = good.map(({ text = '' }, i) => ({ number: i + 1, text }));
  await trail.note({
    phase: 'merge',
    detail: `${good.length} of ${items.length} sources`,
    ok: good.length > 0,
    credits: 0,
  });
  const { steps, credits } = trail;
  await services.usage.spend(run.job.owner, 'agent', { credits, pages: good.length, bytes: 0 });
  const result = {
    ...(merged
      ? { data: merged.data, provenance: merged.provenance, conflicts: merged.conflicts }
      : {}),
    context: bestPassages(input.prompt, texts, contextCharsMax)
      .map(({ number, text }) => `[${number}] ${text}`)
      .join('\n\n'),
    sources: items.map(({ url, title, error }) => ({
      url,
      ...(title ? { title } : {}),
      ...(error ? { error } : {}),
    })),
    steps,
    creditsUsed: credits,
    stopReason: trail.affords(1) ? 'done' : 'credits',
    ...(notices.length > 0 ? { notice: notices[0] } : {}),
  };
  if (good.length > 0) return { type: 'completed', result, cost: credits };
  const error = {
    code: 'nothingFound',
    message:
      items.length === 0
        ? 'No source was found.'
        : `None of ${items.length} sources could be read.`,
    hint: 'Give `urls`, configure a search engine (web.search in config.json), or raise maxCredits. The steps show what was tried.',
  };
  return { type: 'failed', error, result, retry: false, cost: credits };
}

async function findRows(run: Run, query: string, count: number, trail: Trail, services: Services) {
  const credits = creditTable.agentSearch;
  if (!trail.reserve(credits)) return { rows: [], notice: 'The credits do not allow a search.' };
  try {
    const answer = await services
      .searcher(run.job.owner)
      .search({ query, kind: 'web', count }, run.signal);
    await trail.note({
      phase: 'search',
      detail: `"${query}": ${answer.rows.length} results`,
      ok: true,
      credits,
    });
    return { rows: answer.rows, notice: answer.notice };
  } catch (error) {
    run.signal.throwIfAborted();
    await trail.note({
      phase: 'search',
      detail: (error as Error).message.slice(0, 300),
      ok: false,
      credits,
    });
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
    selectors?: Record<string, string> | undefined;
  },
  trail: Trail,
  services: Services,
): Promise<Item[]> {
  const items: Item[] = [];
  const waiting = rows.map((row, i) => ({ row, i }));
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      run.signal.throwIfAborted();
      if (!trail.reserve(creditTable.agentPage)) return;
      items[next.i] = await readOne(run, next.row, wish, trail, services);
    }
  };
  await Promise.all(Array.from({ length: pagesAtOnce }, worker));
  return items.filter(Boolean);
}

async function readOne(
  run: Run,
  row: Pick<SearchRow, 'url' | 'title'>,
  wish: {
    schema?: unknown;
    prompt?: string | undefined;
    selectors?: Record<string, string> | undefined;
  },
  trail: Trail,
  services: Services,
): Promise<Item> {
  const credits = creditTable.agentPage;
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
          loaded.html,
          loaded.url,
          { schema, selectors, ...words },
          services,
          run.signal,
        )
      : undefined;
    await trail.note({ phase: 'read', detail: loaded.url, ok: true, credits });
    const title = loaded.page.title ?? row.title;
    const text = (loaded.page.text ?? '').slice(0, textCharsMax);
    const data = made ? { data: made.data, valid: made.valid, missing: made.missing } : {};
    return { url: loaded.url, title, text, ...data };
  } catch (error) {
    run.signal.throwIfAborted();
    const message = error instanceof AppError ? error.message : 'It could not be read.';
    await trail.note({ phase: 'read', detail: `${row.url}: ${message}`, ok: false, credits });
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
