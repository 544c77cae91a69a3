// search, news, images and suggest over the configured engines. The first general engine that has
// rows answers; without one the documented keyless sources do, and the answer says so plainly.
import { AppError } from '../../../errors.ts';
import { keyedEngines, type Asker } from './keyed.ts';
import { keylessEngines } from './keyless.ts';
import { localEngine } from './local.ts';
import { sameUrl } from './same-url.ts';
import { searxngEngine } from './searxng.ts';
import {
  narrowings,
  type Engine,
  type EngineReport,
  type Found,
  type Problem,
  type SearchAnswer,
  type SearchKind,
  type SearchParts,
  type SearchRequest,
  type SearchRow,
} from './types.ts';

export const queryCharsMax = 2000;
export const countMax = 100;
const suggestionsMax = 10;
const warningsMax = 20;

const howToConfigure =
  'Set web.search.searxngUrl to a SearXNG instance of yours, or a key: ' +
  'BRAVE_API_KEY, TAVILY_API_KEY or SEARCHCLAW_API_KEY.';

export class Searcher {
  private readonly parts: SearchParts;
  private readonly engines: readonly Engine[];

  constructor(parts: SearchParts) {
    this.parts = parts;
    this.engines = enginesOf(parts);
  }

  /** Names of the engines that can be asked now, in order; for status and docs. */
  names(kind?: SearchKind): string[] {
    const able = this.engines.filter((engine) => kind === undefined || engine.kinds.includes(kind));
    return able.map(({ name }) => name);
  }

  async search(given: SearchRequest, signal: AbortSignal): Promise<SearchAnswer> {
    const request = checked(given);
    const able = this.engines.filter(({ kinds }) => kinds.includes(request.kind));
    const general = able.filter((engine) => engine.general);
    const answer: SearchAnswer = {
      query: request.query,
      kind: request.kind,
      rows: [],
      suggestions: [],
      engines: [],
    };
    for (const engine of general) {
      await this.ask(engine, request, answer, signal);
      if (answer.rows.length > 0) break;
    }
    const answered = answer.engines.some(({ problem }) => problem === undefined);
    if (answer.rows.length === 0 && !answered) {
      const others = able.filter((engine) => !engine.general);
      await Promise.all(others.map((engine) => this.ask(engine, request, answer, signal)));
      sortByEngine(answer, others);
    }
    finish(answer, request, general.length);
    return answer;
  }

  async suggest(
    query: string,
    signal: AbortSignal,
    language?: string,
  ): Promise<{ suggestions: string[]; engines: EngineReport[] }> {
    const { query: text } = checked({ query, kind: 'web', count: suggestionsMax });
    const engines: EngineReport[] = [];
    for (const engine of this.engines) {
      if (!engine.suggest) continue;
      const start = this.parts.clock.now();
      const report: EngineReport = { engine: engine.name, rows: 0, ms: 0 };
      engines.push(report);
      try {
        const ask = engine.suggest.bind(engine);
        const all = await this.inTime(engine, signal, (limited) => ask(text, limited, language));
        const suggestions = all.slice(0, suggestionsMax);
        report.rows = suggestions.length;
        if (suggestions.length > 0) return { suggestions, engines };
      } catch (error) {
        signal.throwIfAborted();
        report.problem = problemOf(error);
      } finally {
        report.ms = this.parts.clock.now() - start;
      }
    }
    refuseSilence(engines, 'suggestions');
    return { suggestions: [], engines };
  }

  private async ask(
    engine: Engine,
    request: SearchRequest,
    answer: SearchAnswer,
    signal: AbortSignal,
  ): Promise<void> {
    const start = this.parts.clock.now();
    const report: EngineReport = { engine: engine.name, rows: 0, ms: 0 };
    answer.engines.push(report);
    try {
      const found = await this.inTime(engine, signal, (limited) => engine.search(request, limited));
      take(found, engine, request, answer, report);
    } catch (error) {
      signal.throwIfAborted();
      report.problem = problemOf(error);
    }
    report.ms = this.parts.clock.now() - start;
  }

  /** The time is for all that one engine is asked, its further pages included. */
  private async inTime<T>(
    { name }: Engine,
    signal: AbortSignal,
    work: (limited: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock, settings } = this.parts;
    const late = new AppError('timeout', `${name} was not done within ${settings.timeoutMs} ms.`);
    const limit = new AbortController();
    const cancel = clock.after(settings.timeoutMs, () => limit.abort(late));
    try {
      return await work(AbortSignal.any([signal, limit.signal]));
    } finally {
      cancel();
    }
  }
}

function enginesOf(parts: SearchParts): Engine[] {
  const { settings, egress, pages } = parts;
  const asker: Asker = (engine, signal) => ({
    engine,
    egress,
    signal,
    timeoutMs: settings.timeoutMs,
    bytesMax: settings.answerBytesMax,
  });
  const all = [
    ...(settings.searxngUrl === undefined ? [] : [searxngEngine(settings.searxngUrl, asker)]),
    ...keyedEngines(parts, asker),
    ...(pages === undefined ? [] : [localEngine(pages)]),
    ...keylessEngines(parts, asker),
  ];
  return settings.engines.flatMap((name) => all.find((engine) => engine.name === name) ?? []);
}

function checked(request: SearchRequest): SearchRequest {
  const query = request.query.trim();
  if (query === '') {
    throw new AppError('invalidInput', 'The query is empty.', {
      hint: 'Give the words to look for.',
    });
  }
  if (query.length > queryCharsMax) {
    throw new AppError('invalidInput', `The query is longer than ${queryCharsMax} characters.`);
  }
  return { ...request, query, count: Math.min(Math.max(request.count, 1), countMax) };
}

function take(
  found: Found,
  engine: Engine,
  request: SearchRequest,
  answer: SearchAnswer,
  report: EngineReport,
): void {
  const seen = new Set(answer.rows.map(({ url }) => sameUrl(url)));
  for (const row of found.rows) {
    if (report.rows >= request.count) break;
    if (seen.has(sameUrl(row.url))) continue;
    seen.add(sameUrl(row.url));
    answer.rows.push({ ...row, engine: engine.name, position: 0 });
    report.rows++;
  }
  for (const text of found.suggestions ?? []) {
    if (answer.suggestions.length < suggestionsMax && !answer.suggestions.includes(text))
      answer.suggestions.push(text);
  }
  if (found.infobox) answer.infobox ??= found.infobox;
  if (found.warnings?.length) report.warnings = found.warnings.slice(0, warningsMax);
  const unknown = narrowings.filter(
    (name) => request[name] !== undefined && !engine.takes.includes(name),
  );
  if (report.rows > 0 && unknown.length > 0) report.ignored = unknown;
}

function sortByEngine(answer: SearchAnswer, order: readonly Engine[]): void {
  const rank = new Map(order.map(({ name }, i) => [name, i]));
  const by = (row: { engine: SearchRow['engine'] }) => rank.get(row.engine) ?? -1;
  answer.rows = answer.rows.toSorted((a, b) => by(a) - by(b));
  answer.engines = answer.engines.toSorted((a, b) => by(a) - by(b));
}

function finish(
  answer: SearchAnswer,
  { count, kind }: SearchRequest,
  generalEngines: number,
): void {
  answer.rows = answer.rows.slice(0, count);
  answer.rows.forEach((row, i) => {
    row.position = i + 1;
  });
  refuseSilence(answer.engines, kind);
  const notice = [...sourceWords(answer, generalEngines), ...ignoredWords(answer)].join(' ');
  if (notice !== '') answer.notice = notice;
}

/** Nothing found is an answer only when somebody looked. */
function refuseSilence(engines: readonly EngineReport[], what: string): void {
  if (engines.length === 0) {
    throw new AppError('unavailable', `No engine for ${what} is configured.`, {
      hint: howToConfigure,
    });
  }
  const problems = engines.flatMap(({ problem }) => problem ?? []);
  if (problems.length < engines.length) return;
  const lines = engines.map(({ engine, problem }) => `${engine}: ${problem!.message}`);
  throw new AppError('unavailable', `No engine answered. ${lines.join(' ')}`, {
    hint: problems.find(({ hint }) => hint)?.hint ?? howToConfigure,
    data: { engines },
  });
}

function sourceWords({ engines }: SearchAnswer, generalEngines: number): string[] {
  const sources = engines.filter(({ problem }) => !problem).map(({ engine }) => engine);
  const failed = engines.flatMap(({ engine, problem }) =>
    problem ? [`${engine} failed: ${problem.message}`] : [],
  );
  if (generalEngines === 0) {
    const only = `these rows are only from ${sources.join(', ')}`;
    return [`No general web engine is configured: ${only}. ${howToConfigure}`, ...failed];
  }
  return failed.length > 0 ? [...failed, `These rows are from ${sources.join(', ')}.`] : [];
}

const ignoredWords = ({ engines }: SearchAnswer): string[] =>
  engines.flatMap(({ engine, ignored }) =>
    ignored
      ? [`${engine} does not know ${ignored.join(', ')}: its rows are not narrowed by it.`]
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
