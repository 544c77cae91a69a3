// Runs search, news, images and suggest over the configured engines. The first general engine with rows
// provides the result. Without one, the keyless sources do, and the result contains a notice.
import { AppError } from '../../../errors.ts';
import { keyedEngines, type FetchOptionsFactory } from './keyed.ts';
import { keylessEngines } from './keyless.ts';
import { localEngine } from './local.ts';
import { sameUrl } from './same-url.ts';
import { searxngEngine } from './searxng.ts';
import {
  filters,
  type Engine,
  type EngineReport,
  type EngineResult,
  type Problem,
  type SearchResult,
  type SearchKind,
  type SearchDeps,
  type SearchRequest,
  type SearchRow,
} from './types.ts';

export const maxQueryChars = 2000;
export const maxCount = 100;
const maxSuggestions = 10;
const maxWarnings = 20;

const howToConfigure =
  'Set web.search.searxngUrl to your SearXNG instance, or set one of the keys ' +
  'BRAVE_API_KEY, TAVILY_API_KEY or SEARCHCLAW_API_KEY.';

export class Searcher {
  private readonly deps: SearchDeps;
  private readonly engines: readonly Engine[];

  constructor(deps: SearchDeps) {
    this.deps = deps;
    this.engines = createEngines(deps);
  }

  /** Returns the names of the available engines in order, for status and docs. */
  names(kind?: SearchKind): string[] {
    const available = this.engines.filter(
      (engine) => kind === undefined || engine.kinds.includes(kind),
    );
    return available.map(({ name }) => name);
  }

  async search(given: SearchRequest, signal: AbortSignal): Promise<SearchResult> {
    const request = validate(given);
    const available = this.engines.filter(({ kinds }) => kinds.includes(request.kind));
    const general = available.filter((engine) => engine.general);
    const result: SearchResult = {
      query: request.query,
      kind: request.kind,
      rows: [],
      suggestions: [],
      engines: [],
    };
    for (const engine of general) {
      await this.run(engine, request, result, signal);
      if (result.rows.length > 0) break;
    }
    const answered = result.engines.some(({ problem }) => problem === undefined);
    if (result.rows.length === 0 && !answered) {
      const others = available.filter((engine) => !engine.general);
      await Promise.all(others.map((engine) => this.run(engine, request, result, signal)));
      sortByEngine(result, others);
    }
    finish(result, request, general.length);
    return result;
  }

  async suggest(
    query: string,
    signal: AbortSignal,
    language?: string,
  ): Promise<{ suggestions: string[]; engines: EngineReport[] }> {
    const { query: text } = validate({ query, kind: 'web', count: maxSuggestions });
    const engines: EngineReport[] = [];
    for (const engine of this.engines) {
      if (!engine.suggest) continue;
      const start = this.deps.clock.now();
      const report: EngineReport = { engine: engine.name, rows: 0, ms: 0 };
      engines.push(report);
      try {
        const run = engine.suggest.bind(engine);
        const all = await this.withTimeout(engine, signal, (limited) =>
          run(text, limited, language),
        );
        const suggestions = all.slice(0, maxSuggestions);
        report.rows = suggestions.length;
        if (suggestions.length > 0) return { suggestions, engines };
      } catch (error) {
        signal.throwIfAborted();
        report.problem = problemOf(error);
      } finally {
        report.ms = this.deps.clock.now() - start;
      }
    }
    assertAnyEngineSucceeded(engines, 'suggestions');
    return { suggestions: [], engines };
  }

  private async run(
    engine: Engine,
    request: SearchRequest,
    result: SearchResult,
    signal: AbortSignal,
  ): Promise<void> {
    const start = this.deps.clock.now();
    const report: EngineReport = { engine: engine.name, rows: 0, ms: 0 };
    result.engines.push(report);
    try {
      const found = await this.withTimeout(engine, signal, (limited) =>
        engine.search(request, limited),
      );
      addResult({ found, engine }, request, result, report);
    } catch (error) {
      signal.throwIfAborted();
      report.problem = problemOf(error);
    }
    report.ms = this.deps.clock.now() - start;
  }

  /** Limits the total time of one engine, including further pages. */
  private async withTimeout<T>(
    { name }: Engine,
    signal: AbortSignal,
    work: (limited: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock, settings } = this.deps;
    const timeoutError = new AppError(
      'timeout',
      `${name} did not finish within ${settings.timeoutMs} ms.`,
    );
    const limit = new AbortController();
    const cancel = clock.after(settings.timeoutMs, () => limit.abort(timeoutError));
    try {
      return await work(AbortSignal.any([signal, limit.signal]));
    } finally {
      cancel();
    }
  }
}

function createEngines(deps: SearchDeps): Engine[] {
  const { settings, egress, pages } = deps;
  const fetchOptions: FetchOptionsFactory = (engine, signal) => ({
    engine,
    egress,
    signal,
    timeoutMs: settings.timeoutMs,
    maxBytes: settings.maxResponseBytes,
  });
  const all = [
    ...(settings.searxngUrl === undefined
      ? []
      : [searxngEngine(settings.searxngUrl, fetchOptions)]),
    ...keyedEngines(deps, fetchOptions),
    ...(pages === undefined ? [] : [localEngine(pages)]),
    ...keylessEngines(deps, fetchOptions),
  ];
  return settings.engines.flatMap((name) => all.find((engine) => engine.name === name) ?? []);
}

function validate(request: SearchRequest): SearchRequest {
  const query = request.query.trim();
  if (query === '') {
    throw new AppError('invalidInput', 'The query is empty.', {
      hint: 'Pass the words to search for.',
    });
  }
  if (query.length > maxQueryChars) {
    throw new AppError('invalidInput', `The query is longer than ${maxQueryChars} characters.`);
  }
  return { ...request, query, count: Math.min(Math.max(request.count, 1), maxCount) };
}

function addResult(
  { found, engine }: { found: EngineResult; engine: Engine },
  request: SearchRequest,
  result: SearchResult,
  report: EngineReport,
): void {
  const seen = new Set(result.rows.map(({ url }) => sameUrl(url)));
  for (const row of found.rows) {
    if (report.rows >= request.count) break;
    if (seen.has(sameUrl(row.url))) continue;
    seen.add(sameUrl(row.url));
    result.rows.push({ ...row, engine: engine.name, position: 0 });
    report.rows++;
  }
  for (const text of found.suggestions ?? []) {
    if (result.suggestions.length < maxSuggestions && !result.suggestions.includes(text))
      result.suggestions.push(text);
  }
  if (found.infobox) result.infobox ??= found.infobox;
  if (found.warnings?.length) report.warnings = found.warnings.slice(0, maxWarnings);
  const unknown = filters.filter(
    (name) => request[name] !== undefined && !engine.supports.includes(name),
  );
  if (report.rows > 0 && unknown.length > 0) report.ignored = unknown;
}

function sortByEngine(result: SearchResult, order: readonly Engine[]): void {
  const rank = new Map(order.map(({ name }, i) => [name, i]));
  const by = (row: { engine: SearchRow['engine'] }) => rank.get(row.engine) ?? -1;
  result.rows = result.rows.toSorted((a, b) => by(a) - by(b));
  result.engines = result.engines.toSorted((a, b) => by(a) - by(b));
}

function finish(
  result: SearchResult,
  { count, kind }: SearchRequest,
  generalEngines: number,
): void {
  result.rows = result.rows.slice(0, count);
  result.rows.forEach((row, i) => {
    row.position = i + 1;
  });
  assertAnyEngineSucceeded(result.engines, kind);
  const notice = [...sourceNotices(result, generalEngines), ...ignoredFilterNotices(result)].join(
    ' ',
  );
  if (notice !== '') result.notice = notice;
}

/** An empty result is valid only when at least one engine searched. */
function assertAnyEngineSucceeded(engines: readonly EngineReport[], what: string): void {
  if (engines.length === 0) {
    throw new AppError('unavailable', `No engine for ${what} is configured.`, {
      hint: howToConfigure,
    });
  }
  const problems = engines.flatMap(({ problem }) => problem ?? []);
  if (problems.length < engines.length) return;
  const lines = engines.map(({ engine, problem }) => `${engine}: ${problem!.message}`);
  throw new AppError('unavailable', `All engines failed. ${lines.join(' ')}`, {
    hint: problems.find(({ hint }) => hint)?.hint ?? howToConfigure,
    data: { engines },
  });
}

function sourceNotices({ engines }: SearchResult, generalEngines: number): string[] {
  const sources = engines.filter(({ problem }) => !problem).map(({ engine }) => engine);
  const failed = engines.flatMap(({ engine, problem }) =>
    problem ? [`${engine} failed: ${problem.message}`] : [],
  );
  if (generalEngines === 0) {
    const only = `these rows come only from ${sources.join(', ')}`;
    return [`No general web engine is configured: ${only}. ${howToConfigure}`, ...failed];
  }
  return failed.length > 0 ? [...failed, `These rows come from ${sources.join(', ')}.`] : [];
}

const ignoredFilterNotices = ({ engines }: SearchResult): string[] =>
  engines.flatMap(({ engine, ignored }) =>
    ignored
      ? [`${engine} does not support ${ignored.join(', ')}, so its rows are not filtered by it.`]
      : [],
  );

function problemOf(error: unknown): Problem {
  if (error instanceof AppError) {
    return {
      code: error.code,
      message: error.message,
      ...(error.hint ? { hint: error.hint } : {}),
    };
  }
  return { code: 'internal', message: error instanceof Error ? error.message : String(error) };
}
