// Commands generated from operations: finds the operation that argv names, and parses flags into its input by the
// operation's JSON Schema. Help texts and input errors are derived from the same schema.
import { AppError } from '../../errors.ts';
import { parseJson } from '../../runtime/json.ts';
import type { CatalogEntry } from './operations-route.ts';
import { withMicroUnits } from './amounts.ts';
import { parseArgs, parseBoolean, type FlagShape } from './args.ts';
import { helpText } from './command.ts';
import { commandNames, withCommandNames } from './print.ts';
import { durationText } from '../../runtime/units.ts';
import { kebab, typeOf, type Schema } from './schema.ts';
import { parseJsonFlag, readValueText, type Sources } from './sources.ts';
import { durationMs, parseTime } from './times.ts';

/** Flags that belong to the command line, not to the operation. */
export interface CommonFlags {
  json: boolean;
  help: boolean;
  /** Keeps printing new items, for operations that stream. */
  follow: boolean;
  /** Repaints the table whenever it changes. */
  watch: boolean;
  allowPrivate: boolean;
  /** Whether to wait for the job that the command starts; undefined when neither --wait nor --detach is present. */
  wait?: boolean;
}

/** The entry whose command words are the longest prefix of argv. */
export function findEntry(
  entries: readonly CatalogEntry[],
  argv: readonly string[],
): CatalogEntry | undefined {
  const fits = entries.filter(({ cli }) => cli && cli.words.every((word, i) => argv[i] === word));
  return fits.toSorted((a, b) => b.cli!.words.length - a.cli!.words.length)[0];
}

export const withoutFlags = (argv: readonly string[]): string[] =>
  argv.filter((word) => !word.startsWith('-'));

/** Commands that start with the words in argv: for `queue`, that is `queue list` and `queue set`. */
export function findSubcommands(
  entries: readonly CatalogEntry[],
  argv: readonly string[],
): CatalogEntry[] {
  const typed = withoutFlags(argv);
  return entries.filter(({ cli }) => cli && typed.every((word, i) => cli.words[i] === word));
}

type Input = Record<string, unknown>;

/** Parses argv into one input, or into one input per item for commands that accept several. */
export async function parseInput(
  entry: CatalogEntry,
  argv: readonly string[],
  now: number,
  sources: Sources,
): Promise<{ inputs: [Input, ...Input[]]; common: CommonFlags }> {
  const { properties = {} } = entry.input as Schema;
  const input: Input = {};
  const common: CommonFlags = {
    json: false,
    help: false,
    follow: false,
    watch: false,
    allowPrivate: false,
  };
  const parsed = parseArgs(argv.slice(entry.cli!.words.length), flagsFor(entry), {
    usage: usage(entry),
    command: `errand ${entry.cli!.words.join(' ')}`,
  });
  for (const { flag, typed, text, negated } of parsed.flags) {
    if (flag.sets) Object.assign(common, flag.sets);
    if (flag.field === undefined) continue;
    const property = properties[flag.field]!;
    if (isBoolean(property)) input[flag.field] = parseBoolean(typed, text) !== negated;
    else {
      const written = await readValueText(property, text!, sources);
      setField(input, flag.field, property, withMsUnit(typed, written));
    }
  }
  const positionals = parsed.words;
  const { args = [], each } = entry.cli!;
  const further = each ? new Set(positionals.splice(args.length)) : new Set<string>();
  await assignPositionals(entry, positionals, input, sources);
  for (const [name, property] of Object.entries(properties)) {
    const text = input[name];
    if (isTime(property) && typeof text === 'string') input[name] = parseTime(name, text, now);
  }
  const implied = Object.entries(entry.cli!.implied ?? {})
    .filter(([field]) => input[field] !== undefined)
    .map(([, fields]) => fields);
  const typed = (field: string) =>
    entry.cli!.args?.includes(field) ? `<${kebab(field)}>` : `--${flagName(field)}`;
  const withImplied = Object.assign({}, ...implied, input) as Input;
  const first = withMicroUnits(withImplied, entry.cli!.units ?? {}, typed);
  const eachArg = args.at(-1)!;
  further.delete(String(first[eachArg]));
  return {
    inputs: [first, ...Array.from(further, (text) => ({ ...first, [eachArg]: text }))],
    common,
  };
}

interface EntryFlag extends FlagShape {
  /** The input field that this flag sets. */
  field?: string;
  /** The command-line options that this flag sets. */
  sets?: Partial<CommonFlags>;
}

/** All flags of a generated command. */
function flagsFor(entry: CatalogEntry): EntryFlag[] {
  const { properties = {} } = entry.input as Schema;
  const shorts = entry.cli!.shorts ?? {};
  const fields = Object.entries(properties).map(([field, property]): EntryFlag => {
    const singular = typeOf(property) === 'array' ? [kebab(field).replace(/s$/, '')] : [];
    return {
      name: flagName(field),
      spellings: [kebab(field), ...singular],
      ...(shorts[field] ? { short: shorts[field] } : {}),
      accepts: isBoolean(property) ? 'boolean' : 'value',
      field,
    };
  });
  return [...fields, ...cliFlags(entry)];
}

function cliFlags(entry: CatalogEntry): EntryFlag[] {
  const { properties = {} } = entry.input as Schema;
  const own = (name: string, sets: Partial<CommonFlags>, short?: string): EntryFlag => ({
    name,
    accepts: 'none',
    sets,
    ...(short ? { short } : {}),
  });
  return [
    ...(entry.streams ? [own('follow', { follow: true }, 'f')] : []),
    ...(isWatchable(entry) ? [own('watch', { watch: true }, 'w')] : []),
    ...(entry.startsJob ? [own('detach', { wait: false }, 'd')] : []),
    ...(entry.startsJob && !properties.waitMs ? [own('wait', { wait: true })] : []),
    ...(entry.cli!.allowsPrivate ? [own('allow-private', { allowPrivate: true })] : []),
    own('json', { json: true }),
    own('help', { help: true }, 'h'),
    { name: 'home', accepts: 'value' },
  ];
}

/** Tables of read-only operations can be watched. */
const isWatchable = ({ effect, cli }: CatalogEntry): boolean =>
  effect === 'read' && cli?.table !== undefined;

async function assignPositionals(
  entry: CatalogEntry,
  positionals: string[],
  input: Record<string, unknown>,
  sources: Sources,
): Promise<void> {
  const args = entry.cli!.args ?? [];
  const { properties = {} } = entry.input as Schema;
  for (const [i, name] of args.entries()) {
    const property = properties[name]!;
    if (i === args.length - 1 && typeOf(property) === 'array') {
      const rest = positionals.splice(0);
      if (rest.length > 0)
        input[name] = rest.map((text) => parseValue(name, property.items ?? {}, text));
      continue;
    }
    const text = positionals.shift();
    if (text !== undefined)
      setField(input, name, property, await readValueText(property, text, sources));
  }
  if (positionals.length > 0) {
    throw new AppError('invalidInput', `Unexpected argument: ${positionals[0]}`, {
      hint: usage(entry),
    });
  }
}

function usage(entry: CatalogEntry): string {
  const { required = [], properties = {} } = entry.input as Schema;
  const { each, args: names = [] } = entry.cli!;
  const args = names.map((name) => {
    const isList = typeOf(properties[name]!) === 'array' || (each && name === names.at(-1));
    const label = `${kebab(name)}${isList ? '…' : ''}`;
    return required.includes(name) ? `<${label}>` : `[${label}]`;
  });
  return `Usage: errand ${[...entry.cli!.words, ...args].join(' ')} [flags]`;
}

export function help(entry: CatalogEntry, entries: readonly CatalogEntry[]): string {
  const { required = [], properties = {} } = entry.input as Schema;
  const { args = [], about, examples = [] } = entry.cli!;
  const typedText = (text: string) =>
    withCommandNames(fieldsAsFlags(text, Object.keys(properties), args), commandNames(entries));
  const shorts = new Map(flagsFor(entry).map(({ field, short }) => [field, short]));
  const row = ([name, property]: [string, Schema]): [string, string] => [
    args.includes(name)
      ? `<${kebab(name)}>`
      : `${shortText(shorts.get(name))}--${negationPrefix(property)}${flagName(name)}${placeholder(name, property)}`,
    typedText(flagText(name, property, required.includes(name) && !args.includes(name))),
  ];
  const fields = Object.entries(properties);
  const rows = [
    ...fields.filter(([name, { description }]) => args.includes(name) && description).map(row),
    ...fields.filter(([name]) => !args.includes(name)).map(row),
  ];
  if (entry.streams) rows.push(['-f, --follow', 'keep printing new items until the end or ctrl-c']);
  if (isWatchable(entry)) rows.push(['-w, --watch', 'refresh the table until ctrl-c']);
  rows.push(...jobRows(entry));
  if (entry.cli!.allowsPrivate)
    rows.push(['--allow-private', 'allow an address on this machine or private network']);
  rows.push(['--json', 'print JSON for scripts']);
  rows.push(['--home DIR', 'use this home instead of ERRAND_HOME']);
  return helpText(usage(entry), typedText(about ?? entry.description), rows, { examples });
}

const shortText = (short: string | undefined): string => (short ? `-${short}, ` : '');

/** Replaces camelCase field names in a description with their flags. Single words may be plain English and stay. */
function fieldsAsFlags(text: string, fields: readonly string[], args: readonly string[]): string {
  const isFlag = (word: string) => fields.includes(word) && !args.includes(word);
  return text.replaceAll(/\b[a-z]+[A-Z]\w*/g, (word) =>
    isFlag(word) ? `--${flagName(word)}` : word,
  );
}

/** Commands whose operation has `waitMs` wait for the result; the others return immediately. */
export const waitsByDefault = ({ startsJob, input }: CatalogEntry): boolean =>
  startsJob === true && (input as Schema).properties?.waitMs !== undefined;

function jobRows(entry: CatalogEntry): [string, string][] {
  if (!entry.startsJob) return [];
  return waitsByDefault(entry)
    ? [['-d, --detach', 'print the job id and return immediately']]
    : [['--wait', 'show progress, then the result']];
}

/** A flag that is false by default needs no negated form. */
const negationPrefix = (property: Schema): string =>
  isBoolean(property) && property.default !== false ? '[no-]' : '';

function placeholder(name: string, property: Schema): string {
  const type = typeOf(property);
  if (type === 'boolean') return '';
  if (type === 'array') return typeOf(property.items ?? {}) === 'object' ? ' JSON|FILE' : ' A,B';
  if (type === 'object') return ' JSON|FILE';
  if (isTime(property)) return ' TIME';
  if (type !== 'number' && type !== 'integer') return ' TEXT';
  return isDuration(name) ? ' 30s' : ' N';
}

/** Describes a flag: purpose, accepted values and default, as far as the schema states them. */
function flagText(name: string, property: Schema, isRequired: boolean): string {
  const { description, default: preset } = property;
  const options = (property.enum ?? property.items?.enum)?.join(', ');
  const isPlain = ['string', 'number', 'boolean'].includes(typeof preset) && preset !== '';
  const notes = [
    ...(isRequired ? ['required'] : []),
    ...(isTime(property) ? ['2026-01-31, "2026-01-31 08:00" or 2h'] : []),
    ...(isPlain ? [`default ${defaultText(name, preset)}`] : []),
  ].join(', ');
  const described = [description, options && `: ${options}`].filter(Boolean).join('');
  return [described.replace(/^: /, ''), notes && `(${notes})`].filter(Boolean).join(' ');
}

const defaultText = (name: string, preset: unknown): string =>
  name.endsWith('Ms') && typeof preset === 'number' ? durationText(preset) : String(preset);

/** Rewrites a call error for the command line: fields become flags, and hints name commands instead of operations. */
export function usageError(
  error: unknown,
  entry: CatalogEntry,
  entries: readonly CatalogEntry[],
): unknown {
  if (!(error instanceof AppError)) return error;
  if (inputIssues(error)) {
    const isArg = (field: string) => entry.cli!.args?.includes(field);
    const typed: FieldLabel = (field, below) =>
      joinPath(isArg(field) ? `<${kebab(field)}>` : `--${flagName(field)}`, below);
    return inputError(error, typed, usage(entry));
  }
  const { code, cause, data } = error;
  const hint = error.hint && withCommandNames(error.hint, commandNames(entries));
  const once = entry.cli!.allowsPrivate && data?.allow !== undefined ? { allowsPrivate: true } : {};
  const more = { ...(data ? { data: { ...data, ...once } } : {}), cause };
  return new AppError(code, error.message, { ...more, ...(hint ? { hint } : {}) });
}

/** Returns the flag of a field. `below` is the path inside the field, which may have its own flag. */
type FieldLabel = (field: string, below: readonly string[]) => string;

export const joinPath = (flag: string, below: readonly string[]): string =>
  [flag, ...below].join('.');

/** Rewrites an input error so that it names flags instead of fields. Other errors are returned unchanged. */
export function inputError(error: unknown, typed: FieldLabel, usageLine: string): unknown {
  const issues = inputIssues(error);
  if (!issues) return error;
  const { data, cause } = error as AppError;
  const lines = issues.slice(0, 5).map((issue) => issueText(issue, typed));
  const hint = `${usageLine}. --help lists the flags.`;
  return new AppError('invalidInput', lines.join('; '), { ...(data ? { data } : {}), cause, hint });
}

function inputIssues(error: unknown): Issue[] | undefined {
  if (!(error instanceof AppError) || error.code !== 'invalidInput') return undefined;
  return error.data?.issues as Issue[] | undefined;
}

interface Issue {
  path: string;
  message: string;
}

function issueText({ path, message }: Issue, typed: FieldLabel): string {
  if (path === '') return message;
  const [name, ...below] = path.split('.') as [string, ...string[]];
  // List indexes are not part of a flag.
  const rest = below.filter((part) => !/^\d+$/.test(part));
  const what = typed(name, rest);
  if (message === 'is required' || message.endsWith('received undefined'))
    return `${what} is required`;
  return `${what}: ${isDuration(name) ? withDurations(message) : message}`;
}

/** Shows limits as durations, because durations are what people type. */
const withDurations = (message: string): string =>
  message.replace(/(?<=(?:at least|at most|less than|more than) )\d+/, (ms) =>
    durationText(Number(ms)),
  );

/** The flag of `timeoutMs` is `--timeout`: it accepts 30s, 5m or seconds. `--timeout-ms` accepts milliseconds. */
export const flagName = (name: string): string => kebab(name.replace(/Ms(?=$|Max$)/, ''));
const isDuration = (name: string): boolean => /Ms(?:Max)?$/.test(name);

/** `--timeout-ms 500`: the flag name contains the unit. */
const withMsUnit = (flag: string, text: string): string =>
  flag.endsWith('-ms') && /^\d+$/.test(text) ? `${text}ms` : text;

function setField(
  input: Record<string, unknown>,
  name: string,
  property: Schema,
  text: string,
): void {
  if (typeOf(property) === 'array') {
    const items = parseList(name, property.items ?? {}, text);
    input[name] = [...((input[name] as unknown[] | undefined) ?? []), ...items];
  } else if (typeOf(property) === 'object' && !/^\s*\{/.test(text)) {
    const [key, ...rest] = text.split('=');
    input[name] = { ...(input[name] as object | undefined), [key!]: rest.join('=') };
  } else if (typeOf(property) === 'object') input[name] = parseJsonFlag(flagName(name), text);
  else input[name] = parseValue(name, property, text);
}

/** Parses `a,b`, or JSON for items that are objects: one object or a list. */
function parseList(name: string, item: Schema, text: string): unknown[] {
  const type = typeOf(item);
  if (!/^\s*[[{]/.test(text) || !['object', 'any'].includes(type)) {
    return text.split(',').map((part) => parseValue(name, item, part.trim()));
  }
  const parsed = parseJsonFlag(flagName(name), text);
  return Array.isArray(parsed) ? parsed : [parsed];
}

function parseValue(name: string, property: Schema, text: string): unknown {
  const type = typeOf(property);
  if (text === 'null' && type !== 'string') return null;
  if (type === 'boolean') return parseBoolean(`--${flagName(name)}`, text);
  if (type === 'number' || type === 'integer')
    return isDuration(name) ? durationMs(text, 1000) : parseNumber(name, text);
  if (type === 'object' || type === 'any') {
    try {
      return parseJson(text);
    } catch (error) {
      if (error instanceof AppError) throw error;
      return text;
    }
  }
  return text;
}

function parseNumber(name: string, text: string): number {
  const n = Number(text);
  if (text.trim() === '' || Number.isNaN(n))
    throw new AppError('invalidInput', `--${kebab(name)} requires a number, not ${text}.`);
  return n;
}

const isTime = ({ format, anyOf }: Schema): boolean =>
  format === 'date-time' || anyOf?.some(isTime) === true;

const isBoolean = (property: Schema): boolean => typeOf(property) === 'boolean';
