// Terminal output of web jobs: the result first, then its sources and what is missing.
import type { CliShape } from '../../../operation.ts';
import type { Step } from '../jobs/step-log.ts';
import type { Conflict } from '../jobs/merge-sources.ts';
import type { ActionResult } from '../browser/actions.ts';
import type { Extraction } from '../extract/extract.ts';
import type { SearchResult } from '../search/types.ts';
import type { Budget } from '../billing/credits.ts';
import type { UsageRow } from '../store/usage.ts';
import type { JobResponse } from '../contracts.ts';

type CliText = Pick<CliShape, 'text' | 'isShort'>;

/** Formats only responses with a result, including partial ones. */
function cliText<T>(text: (out: T) => string | undefined, isShort: (out: T) => boolean): CliText {
  const isDone = (out: unknown) => (out as JobResponse).creditsUsed !== undefined;
  return {
    text: (out) => (isDone(out) ? text(out as T) : undefined),
    isShort: (out) => isDone(out) && isShort(out as T),
  };
}

export const crawlText = cliText<
  {
    pages: number;
    outcomes: Record<string, number>;
    stopReason: string;
    creditsUsed: number;
  } & JobResponse
>(
  ({ id, pages, outcomes, stopReason, creditsUsed }) =>
    [
      `${pages} pages (${stopReason}), ${creditsUsed} credits`,
      ...Object.entries(outcomes).map(([outcome, n]) => `${n} ${outcome}`),
      `Run \`errand pages ${id}\` to list the pages, with --fields markdown to show their text.`,
    ].join('\n'),
  () => false,
);

export const extractionText = cliText<Extraction & JobResponse>(
  (out) =>
    blocks(
      `${out.title ?? ''}\n${out.url}`.trim(),
      json(out.data),
      out.fields.map(({ path, source }) => `${path} from ${sourceText(source)}`).join('\n'),
      out.missing.map(({ path, reason }) => `${path} is missing: ${reason}`).join('\n'),
      out.problems.map(({ path, message }) => `${path || 'the data'} ${message}`).join('\n'),
      out.needsModel &&
        `${out.needsModel.reason} --json shows the content. Submit the JSON you produce from it with \`errand extract submit ${out.id} FILE\`.`,
    ),
  ({ valid, needsModel }) => !valid || needsModel !== undefined,
);

export const browseText = cliText<
  { results: ActionResult[]; title: string; finalUrl: string } & JobResponse
>(
  ({ results, title, finalUrl }) =>
    blocks(`${title}\n${finalUrl}`.trim(), ...results.map((one, i) => resultText(one, i + 1))),
  ({ results }) => results.some(({ success }) => !success),
);

function resultText({ action, success, error, content, data }: ActionResult, n: number): string {
  const path = (data as { path?: unknown } | undefined)?.path;
  const given = content ?? (typeof path === 'string' ? path : data === undefined ? '' : json(data));
  const head = `${n}. ${action}${success ? '' : ` failed: ${error ?? ''}`}`;
  return given === '' ? head : `${head}\n${given}`;
}

interface Research {
  steps: Step[];
  creditsUsed: number;
  stopReason: string;
  unread?: string[];
}

interface Item {
  url: string;
  title?: string;
  data?: unknown;
  error?: string;
}

export const pipelineText = cliText<Research & { items: Item[] } & JobResponse>(
  (out) =>
    blocks(
      ...out.items.map(({ url, title, data, error }, i) =>
        `${i + 1}. ${title ?? url}\n${url}\n${error === undefined ? json(data) : `failed: ${error}`}`.trim(),
      ),
      stepsText(out),
    ),
  ({ items }) => items.every(({ error }) => error !== undefined),
);

interface Source {
  number: number;
  url: string;
  title?: string;
  error?: string;
}

export const agentText = cliText<
  Research & {
    data?: unknown;
    conflicts?: Conflict[];
    context: string;
    sources: Source[];
  } & JobResponse
>(
  (out) =>
    blocks(
      out.data === undefined ? '' : json(out.data),
      (out.conflicts ?? []).map(conflictText).join('\n'),
      out.context,
      sourcesText(out.sources),
      stepsText(out),
    ),
  () => false,
);

function conflictText({ field, values }: Conflict): string {
  const lines = values.map(
    ({ value, sources }) => `  ${json(value)} according to ${sources.join(', ')}`,
  );
  return [`The sources disagree on ${field}:`, ...lines].join('\n');
}

/** Suggestions and answers have no table rows. */
export const searchText = cliText<
  SearchResult & { type: string; context?: string; sources?: Source[] } & JobResponse
>(
  (out) => {
    if (out.type === 'suggest') return out.suggestions.join('\n') || 'No suggestion.';
    if (out.type !== 'answer') return undefined;
    return blocks(out.context || 'No relevant passage found.', sourcesText(out.sources ?? []));
  },
  () => false,
);

const sourcesText = (sources: readonly Source[]): string =>
  sources
    .map(({ number, url, title, error }) => {
      const name = title && title !== url ? `${title} ` : '';
      return `[${number}] ${name}${url}${error ? ` (not read: ${error})` : ''}`;
    })
    .join('\n');

/** Failed steps, unread pages and the price. */
function stepsText({ steps, creditsUsed, stopReason, unread = [] }: Research): string {
  const failed = steps.filter(({ ok, phase }) => !ok && phase === 'search');
  return [
    ...failed.map(({ detail }) => `search failed: ${detail}`),
    ...(unread.length > 0 ? [`Not read (${stopReason}): ${unread.join(', ')}`] : []),
    `${steps.length} steps, ${creditsUsed} credits`,
  ].join('\n');
}

interface UsageView {
  period: string;
  creditsUsed: number;
  budgets: Budget[];
  rows: UsageRow[];
  creditTable: Record<string, { credits: number; note?: string }>;
}

export function usageText({ period, creditsUsed, budgets, rows, creditTable }: UsageView): string {
  return blocks(
    `${creditsUsed} credits in ${period}`,
    budgets
      .map(
        ({ period: span, limit, used, remaining }) =>
          `budget per ${span}: ${used} of ${limit} used, ${remaining} left`,
      )
      .join('\n'),
    columns(
      ['when', 'action', 'calls', 'credits', 'pages', 'bytes'],
      rows.map(({ day, action, calls, credits, pages, bytes }) =>
        [day, action, calls, credits, pages, bytes].map(String),
      ),
    ),
    columns(
      ['what', 'credits', ''],
      Object.entries(creditTable).map(([name, { credits, note = '' }]) => [
        name,
        String(credits),
        note,
      ]),
    ),
  );
}

function columns(heads: string[], rows: string[][]): string {
  if (rows.length === 0) return '';
  const lines = [heads.map((head) => head.toUpperCase()), ...rows];
  const widths = heads.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  return lines
    .map((line) =>
      line
        .map((text, i) => text.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function sourceText(source: unknown): string {
  return typeof source === 'string' ? source : Object.values(source as object).join(' ');
}

const json = (value: unknown): string => JSON.stringify(value, null, 2);

const blocks = (...parts: (string | undefined)[]): string => parts.filter(Boolean).join('\n\n');
