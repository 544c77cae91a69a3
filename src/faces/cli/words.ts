// From words to an input: which operation is meant, and its fields from flags, by the operation's own JSON Schema.
import { AppError } from '../../errors.ts';
import { parseJson } from '../../runtime/json.ts';
import type { CatalogEntry } from './bridge.ts';
import { withMicroUnits } from './amounts.ts';
import { parseArgs, truthOf, type FlagShape } from './args.ts';
import { helpText } from './command.ts';
import { commandNames, terminalWords } from './print.ts';
import { durationText } from '../../runtime/units.ts';
import { typeOf, type Schema } from './schema.ts';
import { jsonOf, writtenText, type Sources } from './sources.ts';
import { durationMs, wireTime } from './times.ts';

/** Flags every command takes. */
export interface Common {
  json: boolean;
  help: boolean;
  /** Goes on with what comes, for operations that can be followed. */
  follow: boolean;
  /** Shows the table again whenever it changes. */
  watch: boolean;
  allowPrivate: boolean;
  /** Of what starts a job: until that is over; undefined where nothing was said. */
  wait?: boolean;
}

/** The entry whose words are the longest beginning of argv. */
export function findEntry(
  entries: readonly CatalogEntry[],
  argv: readonly string[],
): CatalogEntry | undefined {
  const fits = entries.filter(({ cli }) => cli && cli.words.every((word, i) => argv[i] === word));
  return fits.toSorted((a, b) => b.cli!.words.length - a.cli!.words.length)[0];
}

/** Without flags. */
export const spokenWords = (argv: readonly string[]): string[] =>
  argv.filter((word) => !word.startsWith('-'));

/** The entries that the words of argv begin: `queue` is no command, `queue list` and `queue set` are. */
export function commandsBelow(
  entries: readonly CatalogEntry[],
  argv: readonly string[],
): CatalogEntry[] {
  const typed = spokenWords(argv);
  return entries.filter(({ cli }) => cli && typed.every((word, i) => cli.words[i] === word));
}

type Input = Record<string, unknown>;

/** One input, or one for each of the things that were named. */
export async function parseInput(
  entry: CatalogEntry,
  argv: readonly string[],
  now: number,
  sources: Sources,
): Promise<{ inputs: [Input, ...Input[]]; common: Common }> {
  const { properties = {} } = entry.input as Schema;
  const input: Input = {};
  const common: Common = {
    json: false,
    help: false,
    follow: false,
    watch: false,
    allowPrivate: false,
  };
  const parsed = parseArgs(argv.slice(entry.cli!.words.length), flagsOf(entry), {
    usage: usage(entry),
    command: `errand ${entry.cli!.words.join(' ')}`,
  });
  for (const { flag, typed, text, negated } of parsed.flags) {
    if (flag.sets) Object.assign(common, flag.sets);
    if (flag.field === undefined) continue;
    const property = properties[flag.field]!;
    if (isBoolean(property)) input[flag.field] = truthOf(typed, text) !== negated;
    else {
      const written = await writtenText(property, text!, sources);
      put(input, flag.field, property, milliseconds(typed, written));
    }
  }
  const loose = parsed.words;
  const { args = [], each } = entry.cli!;
  const further = each ? loose.splice(args.length) : [];
  await takeLoose(entry, loose, input, sources);
  for (const [name, property] of Object.entries(properties)) {
    const text = input[name];
    if (isTime(property) && typeof text === 'string') input[name] = wireTime(name, text, now);
  }
  const implied = Object.entries(entry.cli!.implied ?? {})
    .filter(([field]) => input[field] !== undefined)
    .map(([, fields]) => fields);
  const typed = (field: string) =>
    entry.cli!.args?.includes(field) ? `<${kebab(field)}>` : `--${flagName(field)}`;
  const given = Object.assign({}, ...implied, input) as Input;
  const first = withMicroUnits(given, entry.cli!.units ?? {}, typed);
  return {
    inputs: [first, ...further.map((text) => ({ ...first, [args.at(-1)!]: text }))],
    common,
  };
}

interface EntryFlag extends FlagShape {
  /** The field of the input that it says. */
  field?: string;
  /** What it says to the command line itself. */
  sets?: Partial<Common>;
}

/** Every flag of a command that is made from an operation. */
export function flagsOf(entry: CatalogEntry): EntryFlag[] {
  const { properties = {} } = entry.input as Schema;
  const shorts = entry.cli!.shorts ?? {};
  const fields = Object.entries(properties).map(([field, property]): EntryFlag => {
    const singular = typeOf(property) === 'array' ? [kebab(field).replace(/s$/, '')] : [];
    return {
      name: flagName(field),
      spellings: [kebab(field), ...singular],
      ...(shorts[field] ? { short: shorts[field] } : {}),
      takes: isBoolean(property) ? 'truth' : 'value',
      field,
    };
  });
  return [...fields, ...ownFlags(entry)];
}

function ownFlags(entry: CatalogEntry): EntryFlag[] {
  const { properties = {} } = entry.input as Schema;
  const own = (name: string, sets: Partial<Common>, short?: string): EntryFlag => ({
    name,
    takes: 'nothing',
    sets,
    ...(short ? { short } : {}),
  });
  return [
    ...(entry.streams ? [own('follow', { follow: true }, 'f')] : []),
    ...(isWatched(entry) ? [own('watch', { watch: true }, 'w')] : []),
    ...(entry.startsJob ? [own('detach', { wait: false }, 'd')] : []),
    ...(entry.startsJob && !properties.waitMs ? [own('wait', { wait: true })] : []),
    ...(entry.cli!.allowsPrivate ? [own('allow-private', { allowPrivate: true })] : []),
    own('json', { json: true }),
    own('help', { help: true }, 'h'),
    { name: 'home', takes: 'value' },
  ];
}

/** A table that only reads can be shown again and again. */
const isWatched = ({ effect, cli }: CatalogEntry): boolean =>
  effect === 'read' && cli?.table !== undefined;

async function takeLoose(
  entry: CatalogEntry,
  loose: string[],
  input: Record<string, unknown>,
  sources: Sources,
): Promise<void> {
  const args = entry.cli!.args ?? [];
  const { properties = {} } = entry.input as Schema;
  for (const [i, name] of args.entries()) {
    const property = properties[name]!;
    if (i === args.length - 1 && typeOf(property) === 'array') {
      const rest = loose.splice(0);
      if (rest.length > 0)
        input[name] = rest.map((text) => value(name, property.items ?? {}, text));
      continue;
    }
    const text = loose.shift();
    if (text !== undefined) put(input, name, property, await writtenText(property, text, sources));
  }
  if (loose.length > 0) {
    throw new AppError('invalidInput', `What is \`${loose[0]}\` for?`, { hint: usage(entry) });
  }
}

function usage(entry: CatalogEntry): string {
  const { required = [], properties = {} } = entry.input as Schema;
  const { each, args: names = [] } = entry.cli!;
  const args = names.map((name) => {
    const isList = typeOf(properties[name]!) === 'array' || (each && name === names.at(-1));
    const shown = `${kebab(name)}${isList ? '…' : ''}`;
    return required.includes(name) ? `<${shown}>` : `[${shown}]`;
  });
  return `Usage: errand ${[...entry.cli!.words, ...args].join(' ')} [flags]`;
}

export function help(entry: CatalogEntry, entries: readonly CatalogEntry[]): string {
  const { required = [], properties = {} } = entry.input as Schema;
  const { args = [], about, examples = [] } = entry.cli!;
  const typedText = (text: string) =>
    terminalWords(typedFields(text, Object.keys(properties), args), commandNames(entries));
  const shorts = new Map(flagsOf(entry).map(({ field, short }) => [field, short]));
  const row = ([name, property]: [string, Schema]): [string, string] => [
    args.includes(name)
      ? `<${kebab(name)}>`
      : `${shortText(shorts.get(name))}--${negatable(property)}${flagName(name)}${placeholder(name, property)}`,
    typedText(flagText(name, property, required.includes(name) && !args.includes(name))),
  ];
  const fields = Object.entries(properties);
  const rows = [
    ...fields.filter(([name, { description }]) => args.includes(name) && description).map(row),
    ...fields.filter(([name]) => !args.includes(name)).map(row),
  ];
  if (entry.streams) rows.push(['-f, --follow', 'go on with what comes, until ctrl-c or its end']);
  if (isWatched(entry))
    rows.push(['-w, --watch', 'show it again whenever it changes, until ctrl-c']);
  rows.push(...jobRows(entry));
  if (entry.cli!.allowsPrivate)
    rows.push(['--allow-private', 'allow the address although it is on this machine or network']);
  rows.push(['--json', 'print JSON, for scripts']);
  rows.push(['--home DIR', 'use the server of this home, not of ERRAND_HOME']);
  return helpText(usage(entry), typedText(about ?? entry.description), rows, { examples });
}

const shortText = (short: string | undefined): string => (short ? `-${short}, ` : '');

/** Fields that a description names are flags here; those of one small word are left alone, being words of the language. */
function typedFields(text: string, fields: readonly string[], args: readonly string[]): string {
  const isFlag = (word: string) => fields.includes(word) && !args.includes(word);
  return text.replaceAll(/\b[a-z]+[A-Z]\w*/g, (word) =>
    isFlag(word) ? `--${flagName(word)}` : word,
  );
}

/** Whoever gives a call time to wait wants its answer; what has no such field answers at once. */
export const isAwaited = ({ startsJob, input }: CatalogEntry): boolean =>
  startsJob === true && (input as Schema).properties?.waitMs !== undefined;

function jobRows(entry: CatalogEntry): [string, string][] {
  if (!entry.startsJob) return [];
  return isAwaited(entry)
    ? [['-d, --detach', 'answer at once with the job id']]
    : [['--wait', 'show how far it is, and the result when it is over']];
}

/** What is false when it is left out need not be said so. */
const negatable = (property: Schema): string =>
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

/** What a field is for, what it takes and what it is when it is left out, as far as the schema says so. */
function flagText(name: string, property: Schema, isNeeded: boolean): string {
  const { description, default: preset } = property;
  const options = (property.enum ?? property.items?.enum)?.join(', ');
  const isPlain = ['string', 'number', 'boolean'].includes(typeof preset) && preset !== '';
  const notes = [
    ...(isNeeded ? ['needed'] : []),
    ...(isTime(property) ? ['2026-01-31, "2026-01-31 08:00" or 2h'] : []),
    ...(isPlain ? [`default ${presetText(name, preset)}`] : []),
  ].join(', ');
  const said = [description, options && `: ${options}`].filter(Boolean).join('');
  return [said.replace(/^: /, ''), notes && `(${notes})`].filter(Boolean).join(' ');
}

const presetText = (name: string, preset: unknown): string =>
  name.endsWith('Ms') && typeof preset === 'number' ? durationText(preset) : String(preset);

/** An error of a call in the words of its command: fields as they are typed, hints that name commands. */
export function usageError(
  error: unknown,
  entry: CatalogEntry,
  entries: readonly CatalogEntry[],
): unknown {
  if (!(error instanceof AppError)) return error;
  if (issuesOf(error)) {
    const isArg = (field: string) => entry.cli!.args?.includes(field);
    const typed: Typed = (field, below) =>
      dotted(isArg(field) ? `<${kebab(field)}>` : `--${flagName(field)}`, below);
    return inputError(error, typed, usage(entry));
  }
  const { code, cause, data } = error;
  const hint = error.hint && terminalWords(error.hint, commandNames(entries));
  const once = entry.cli!.allowsPrivate && data?.allow !== undefined ? { allowsPrivate: true } : {};
  const more = { ...(data ? { data: { ...data, ...once } } : {}), cause };
  return new AppError(code, error.message, { ...more, ...(hint ? { hint } : {}) });
}

/** How a field is typed; of one with fields below it, perhaps the one that is meant has a flag of its own. */
type Typed = (field: string, below: readonly string[]) => string;

export const dotted = (flag: string, below: readonly string[]): string =>
  [flag, ...below].join('.');

/** An input that was refused, with each field as it was `typed`; any other error as it is. */
export function inputError(error: unknown, typed: Typed, usageLine: string): unknown {
  const issues = issuesOf(error);
  if (!issues) return error;
  const { data, cause } = error as AppError;
  const lines = issues.slice(0, 5).map((issue) => issueText(issue, typed));
  const hint = `${usageLine}; --help lists the flags.`;
  return new AppError('invalidInput', lines.join('; '), { ...(data ? { data } : {}), cause, hint });
}

function issuesOf(error: unknown): Issue[] | undefined {
  if (!(error instanceof AppError) || error.code !== 'invalidInput') return undefined;
  return error.data?.issues as Issue[] | undefined;
}

interface Issue {
  path: string;
  message: string;
}

function issueText({ path, message }: Issue, typed: Typed): string {
  if (path === '') return message;
  const [name, ...below] = path.split('.') as [string, ...string[]];
  // A person types a list, not its places.
  const rest = below.filter((part) => !/^\d+$/.test(part));
  const what = typed(name, rest);
  if (message === 'is required' || message.endsWith('received undefined'))
    return `${what} is needed`;
  return `${what}: ${isDuration(name) ? withDurations(message) : message}`;
}

/** Limits in the unit that is typed. */
const withDurations = (message: string): string =>
  message.replace(/(?<=(?:at least|at most|less than|more than) )\d+/, (ms) =>
    durationText(Number(ms)),
  );

/** `timeoutMs` is `--timeout` on a terminal, which takes 30s, 5m, or seconds (`--timeout-ms` takes milliseconds). */
export const flagName = (name: string): string => kebab(name.replace(/Ms(?=$|Max$)/, ''));
const isDuration = (name: string): boolean => /Ms(?:Max)?$/.test(name);

/** `--timeout-ms 500` says its unit in the flag. */
const milliseconds = (flag: string, text: string): string =>
  flag.endsWith('-ms') && /^\d+$/.test(text) ? `${text}ms` : text;

const kebab = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function put(input: Record<string, unknown>, name: string, property: Schema, text: string): void {
  if (typeOf(property) === 'array') {
    const items = listOf(name, property.items ?? {}, text);
    input[name] = [...((input[name] as unknown[] | undefined) ?? []), ...items];
  } else if (typeOf(property) === 'object' && !/^\s*\{/.test(text)) {
    const [key, ...rest] = text.split('=');
    input[name] = { ...(input[name] as object | undefined), [key!]: rest.join('=') };
  } else if (typeOf(property) === 'object') input[name] = jsonOf(flagName(name), text);
  else input[name] = value(name, property, text);
}

/** `a,b`; things that have fields come as JSON, one or a list of them. */
function listOf(name: string, item: Schema, text: string): unknown[] {
  const type = typeOf(item);
  if (!/^\s*[[{]/.test(text) || !['object', 'any'].includes(type)) {
    return text.split(',').map((part) => value(name, item, part.trim()));
  }
  const given = jsonOf(flagName(name), text);
  return Array.isArray(given) ? given : [given];
}

function value(name: string, property: Schema, text: string): unknown {
  const type = typeOf(property);
  if (text === 'null' && type !== 'string') return null;
  if (type === 'boolean') return truthOf(`--${flagName(name)}`, text);
  if (type === 'number' || type === 'integer')
    return isDuration(name) ? durationMs(text, 1000) : number(name, text);
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

function number(name: string, text: string): number {
  const n = Number(text);
  if (text.trim() === '' || Number.isNaN(n))
    throw new AppError('invalidInput', `--${kebab(name)} needs a number, not ${text}.`);
  return n;
}

const isTime = ({ format, anyOf }: Schema): boolean =>
  format === 'date-time' || anyOf?.some(isTime) === true;

const isBoolean = (property: Schema): boolean => typeOf(property) === 'boolean';
