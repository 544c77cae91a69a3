// Formats output for people: tables that fit the terminal, colours, local times and short durations. Sanitizes untrusted
// text.
import { byName } from '../../runtime/by-name.ts';
import { formatUnits } from '../../runtime/decimal.ts';
import { isRecord } from '../../runtime/json.ts';
import { durationText } from '../../runtime/units.ts';
import type { CatalogEntry } from './operations-route.ts';
import { dim, paint, type Screen, type Style } from './screen.ts';
import { ageText } from './times.ts';
import { fitToWidth, textWidth } from './width.ts';

export const statusColour: Record<string, Style> = byName({
  completed: 'green',
  running: 'cyan',
  queued: 'gray',
  input_required: 'yellow',
  failed: 'red',
  timed_out: 'red',
  cancelled: 'magenta',
});

export function printOutput(
  screen: Screen,
  entry: CatalogEntry,
  output: unknown,
  { text, shown }: { text?: string | undefined; shown?: string | undefined },
): void {
  const table = entry.cli?.table;
  if (shown !== undefined) {
    screen.out(`${sanitize(shown)}\n`);
    printNotice(screen, output);
    return;
  }
  if (table && output && typeof output === 'object') {
    const rows = (output as Record<string, unknown>)[table.rows];
    if (Array.isArray(rows)) {
      const { columns, bodies = [] } = table;
      const list = (rows as Record<string, unknown>[]).map(rowWithCommandNames);
      const isRead = list.some((row) => bodies.some((name) => row[name] !== undefined));
      if (isRead) for (const row of list) screen.out(bodyText(screen, entry, row, bodies));
      else screen.out(tableText(screen, list, columns, table));
      const { nextCursor, laterCursor } = output as Record<string, string | undefined>;
      if (nextCursor) screen.err(dim(screen, `more: --cursor ${nextCursor}\n`));
      if (laterCursor) screen.err(dim(screen, `newer items: --cursor ${laterCursor}\n`));
      printNotice(screen, output);
      return;
    }
  }
  if (text !== undefined) screen.out(`${sanitize(text)}\n`);
  else screen.out(fieldsText(screen, isRecord(output) ? rowWithCommandNames(output) : output));
}

/** Fields that contain text of Errand, which may name operations. */
const hintFields = new Set(['hint', 'message', 'diagnosis', 'next', 'note', 'notice']);

/** Replaces operation names with commands in those fields. */
function rowWithCommandNames(row: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (typeof value === 'string')
        return [name, hintFields.has(name) ? withCommandNames(value) : value];
      const isOurs = isRecord(value) && (name === 'data' || name === 'error');
      return [name, isOurs ? rowWithCommandNames(value) : value];
    }),
  );
}

/** Prints the notice that a caller needs to judge the output, if there is one. */
function printNotice(screen: Screen, output: unknown): void {
  const { notice } = output as { notice?: string };
  if (notice) screen.err(`${sanitize(notice)}\n`);
}

function bodyText(
  screen: Screen,
  entry: CatalogEntry,
  row: Record<string, unknown>,
  bodies: readonly string[],
): string {
  const texts = bodies.flatMap((name) => {
    const body = row[name];
    if (body === undefined || body === null) return [];
    return sanitize(typeof body === 'string' ? body : JSON.stringify(body, null, 2));
  });
  return `${dim(screen, streamLine(entry, row))}\n${texts.join('\n\n')}\n\n`;
}

/** Formats one streamed item with the columns of its table, without alignment: later items are unknown. */
export function streamLine(entry: CatalogEntry, data: unknown): string {
  const columns = entry.cli?.table?.columns;
  if (!columns || data === null || typeof data !== 'object')
    return `${sanitize(JSON.stringify(data))}\n`;
  const row = rowWithCommandNames(data as Record<string, unknown>);
  const cells = columns.map((column) => cell(column, row[column])).filter((text) => text !== '');
  return `${cells.join('  ')}\n`;
}

interface TableOptions {
  ages?: readonly string[];
  variable?: readonly string[];
}

/** On a terminal the table fits the width: ids are shortened and constant columns are omitted. */
export function tableText(
  screen: Pick<Screen, 'columns' | 'colour' | 'now'>,
  rows: readonly Record<string, unknown>[],
  names: readonly string[],
  { ages = [], variable = [] }: TableOptions = {},
): string {
  if (rows.length === 0) return dim(screen, 'no entries\n');
  const isTerminal = screen.columns !== undefined;
  const isShown = (name: string) =>
    !(isTerminal && variable.includes(name)) || new Set(rows.map((row) => row[name])).size > 1;
  const columns = names.filter(isShown);
  const shorten = isTerminal ? shortIds(rows) : (id: string) => id;
  const text = (name: string, value: unknown) => {
    if (name === 'id' && typeof value === 'string') return sanitize(shorten(value));
    if (isTerminal && ages.includes(name) && typeof value === 'string')
      return ageText(screen.now() - Date.parse(value));
    return cell(name, value);
  };
  const title = (name: string) => (isTerminal && ages.includes(name) ? 'AGE' : heading(name));
  const cells = rows.map((row) => columns.map((name) => text(name, row[name])));
  const used = columns.map((_, i) => cells.some((row) => row[i] !== ''));
  const widths = columns.map((name, i) =>
    Math.max(title(name).length, ...cells.map((row) => textWidth(row[i]!))),
  );
  const free = columns.map((name, i) => used[i]! && !keepsWidth(name));
  shrink(widths, { used, free }, screen.columns);
  const line = (row: readonly string[], isHead: boolean) =>
    row
      .flatMap((value, i) =>
        used[i] ? [paintCell(value, fitToWidth(value, widths[i]!), isHead)] : [],
      )
      .join('  ')
      .trimEnd();
  const paintCell = (value: string, shown: string, isHead: boolean) => {
    const style = isHead ? undefined : statusColour[value];
    return style ? paint(screen, style, shown) : shown;
  };
  const head = line(columns.map(title), true);
  return `${dim(screen, head)}\n${cells.map((row) => line(row, false)).join('\n')}\n`;
}

const idForm = /^job_[0-9a-z]{16}$/;
const minShortId = 8;

/** Jobs can be addressed by an id prefix: shortens ids to a length that distinguishes the rows. */
function shortIds(rows: readonly Record<string, unknown>[]): (id: string) => string {
  const ids = rows.map(({ id }) => id).filter((id): id is string => typeof id === 'string');
  if (!ids.every((id) => idForm.test(id))) return (id) => id;
  const own = ids.map((id) => id.slice(4));
  let length = minShortId;
  while (length < 16 && new Set(own.map((id) => id.slice(0, length))).size < new Set(own).size)
    length += 1;
  return (id) => id.slice(4, 4 + length);
}

/** Columns that are never truncated: ids must stay copyable and statuses readable. */
const keepsWidth = (column: string): boolean => /^(id|status|exitCode)$|Id$/.test(column);

/** Narrows the widest flexible column until the line fits. */
function shrink(
  widths: number[],
  { used, free }: { used: readonly boolean[]; free: readonly boolean[] },
  columns: number | undefined,
): void {
  if (columns === undefined) return;
  const total = () => widths.reduce((sum, width, i) => (used[i] ? sum + width + 2 : sum), -2);
  while (total() > columns) {
    const widest = Math.max(...widths.filter((_, i) => free[i]));
    if (widest <= 6) return;
    widths[widths.findLastIndex((width, i) => free[i] && width === widest)]! -= 1;
  }
}

const isTime = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

function cell(column: string, value: unknown): string {
  if (value === undefined || value === null) return '';
  if (column.endsWith('Ms') && typeof value === 'number') return durationText(value);
  if (typeof value === 'string' && isTime.test(value)) return localTime(value);
  if (Array.isArray(value) && value.some(isRecord)) return `${value.length} entries`;
  if (Array.isArray(value)) return sanitize(value.join(',')) || '–';
  if (typeof value === 'object') return sanitize(JSON.stringify(value));
  return sanitize(String(value).replaceAll(/\s+/g, ' '));
}

/** Replaces control and bidirectional characters: untrusted text must not control the terminal. */
export function sanitize(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(/[^\n\t\P{Cc}]|[\u202a-\u202e\u2066-\u2069]/gu, '\ufffd');
}

const heading = (column: string): string =>
  (column === 'exitCode' ? 'exit' : column)
    .replace(/(Ms|At)$/, '')
    .replaceAll(/[A-Z]/g, (letter) => ` ${letter}`)
    .toUpperCase();

/** Formats one line per field. Nested objects are indented, lists of objects become tables. */
export function fieldsText(screen: Screen, output: unknown, indent = ''): string {
  if (!isRecord(output)) return `${sanitize(String(output))}\n`;
  const rows = Object.entries(output).filter(([, value]) => value !== undefined);
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const block = (name: string, text: string) => `${indent}${name}\n${text}`;
  return rows
    .map(([name, value]) => {
      if (isRecord(value) && !isCallerData(name) && !isShort(value))
        return block(name, fieldsText(screen, value, `${indent}  `));
      if (Array.isArray(value) && value.length > 0 && value.every(isRecord))
        return block(name, indented(tableText(screen, value, fieldNames(value)), `${indent}  `));
      const isPart = isRecord(value) && !isCallerData(name);
      return `${indent}${name.padEnd(width)}  ${isPart ? inline(value) : cell(name, value)}\n`;
    })
    .join('');
}

/** JSON of the caller is printed unchanged. */
const isCallerData = (name: string): boolean => ['input', 'result', 'data'].includes(name);

const isShort = (value: Record<string, unknown>): boolean =>
  Object.values(value).every((field) => field === null || typeof field !== 'object') &&
  inline(value).length <= 80;

const inline = (value: Record<string, unknown>): string =>
  Object.entries(value)
    .map(([name, field]) => `${name} ${cell(name, field)}`)
    .join(', ') || '–';

const fieldNames = (rows: readonly Record<string, unknown>[]): string[] => [
  ...new Set(rows.flatMap((row) => Object.keys(row))),
];

const indented = (text: string, indent: string): string => text.replaceAll(/^(?=.)/gm, indent);

export function localTime(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  const two = (n: number) => String(n).padStart(2, '0');
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** Commands of the most frequent operations, for when the catalog is not loaded. */
const defaultCommandNames: ReadonlyMap<string, string> = new Map([
  ['run_command', 'errand run'],
  ['get_job', 'errand show'],
  ['list_jobs', 'errand list'],
  ['wait_for_jobs', 'errand wait'],
  ['read_output', 'errand logs'],
  ['send_input', 'errand send'],
  ['send_signal', 'errand signal'],
  ['cancel_job', 'errand cancel'],
  ['retry_job', 'errand retry'],
  ['rerun_job', 'errand rerun'],
  ['delete_job', 'errand rm'],
  ['pin_job', 'errand pin'],
  ['list_events', 'errand events'],
  ['set_queue', 'errand queue set'],
  ['list_queues', 'errand queue list'],
  ['read_pages', 'errand pages'],
]);

/** Maps every operation in the catalog to its command. */
export function commandNames(entries: readonly CatalogEntry[]): ReadonlyMap<string, string> {
  // The first command of an operation wins.
  return new Map(
    entries
      .toReversed()
      .flatMap(({ name, cli }) => (cli ? [[name, `errand ${cli.words.join(' ')}`]] : [])),
  );
}

/** Replaces operation names with commands: hints are written for agents. */
export function withCommandNames(text: string, names = defaultCommandNames): string {
  return sanitize(text)
    .replace(/read_output with mode errors( or tail)?/g, '`errand logs --errors`')
    .replace(
      'Start it with stdin: "open" (or tty: true)',
      'Start it with `errand run --stdin open` (or --tty)',
    )
    .replace(/\b(larger|longer) (timeout|ttl)Ms\b/g, '$1 --$2')
    .replaceAll(
      /\bexpectedBudget "(\d{1,16})"/g,
      (_, micro: string) => `--expected-budget ${formatUnits(Number(micro))}`,
    )
    .replaceAll(/`?\b([a-z]+(?:_[a-z]+)+)\b`?/g, (match, name: string) => {
      const typed = names.get(name);
      return typed ? `\`${typed}\`` : match;
    });
}

/** Like `withCommandNames`, and adds the job id so that suggested commands can be copied. */
export const withJobCommands = (text: string, id: string): string =>
  withCommandNames(text).replaceAll('`errand logs --errors`', `\`errand logs --errors ${id}\``);
