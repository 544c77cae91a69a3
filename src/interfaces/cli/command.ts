// Defines built-in commands: flags, help text and run function.
import { AppError } from '../../errors.ts';
import { parseArgs, type FlagShape } from './args.ts';
import type { Client } from './client.ts';
import type { Screen } from './screen.ts';
import type { Program } from './program.ts';

export interface CommandContext {
  program: Program;
  screen: Screen;
  /** The built-in commands, for help and completion. */
  commands: CommandLoaders;
  /** A client of the home's server, which is started if necessary, or of ERRAND_URL. */
  client(): Promise<Client>;
  /** The same context for another home; without a home, this context. */
  at(home: string | undefined): CommandContext;
}

/** Commands are loaded on demand so that the command line starts fast. */
export type CommandLoaders = Readonly<Record<string, () => Promise<Command>>>;

interface Command {
  summary: string;
  /** Flags with dashes, for completion. */
  flags: readonly string[];
  /** Whether its arguments are jobs, for completion. */
  acceptsJobs: boolean;
  help(name: string): string;
  /** Receives the arguments after the command name and returns the exit code. */
  run(context: CommandContext, name: string, args: string[]): Promise<number>;
}

interface Flag {
  type: 'string' | 'boolean';
  short?: string;
  multiple?: boolean;
  /** Placeholder of the value in the help, e.g. N. */
  value?: string;
  help: string;
}

type Flags = Record<string, Flag>;

interface Spec<T extends Flags> {
  summary: string;
  /** Description in the help of this command. */
  about?: string;
  /** Example lines in the help of this command. */
  examples?: readonly string[];
  /** Positional arguments, e.g. `ID…`. */
  args?: string;
  flags: T;
  /** Flags end at the first positional argument: what follows is another program with its own flags. */
  endsAtWord?: boolean;
  run(context: CommandContext, words: CommandArgs<T>): Promise<number>;
}

/** Flags that every command accepts. */
const commonFlags = {
  home: { type: 'string', value: 'DIR', help: 'use this home instead of ERRAND_HOME' },
} as const satisfies Flags;

type Values<T extends Flags> = {
  -readonly [K in keyof T]?: T[K]['type'] extends 'boolean'
    ? boolean
    : T[K] extends { multiple: true }
      ? string[]
      : string;
};

export type CommandArgs<T extends Flags> = {
  values: Values<T> & { home?: string };
  positionals: string[];
  /** The usage line, for error hints. */
  usage: string;
};

export function command<T extends Flags>(spec: Spec<T>): Command {
  const usageLine = (name: string) =>
    ['Usage: errand', name, '[flags]', spec.args].filter(Boolean).join(' ');
  const flags: Flags = { ...spec.flags, ...commonFlags };
  return {
    summary: spec.summary,
    flags: Object.keys(flags).map((name) => `--${name}`),
    acceptsJobs: spec.args?.startsWith('ID') ?? false,
    help: (name) =>
      helpText(usageLine(name), spec.about ?? spec.summary, Object.entries(flags).map(flagRow), {
        examples: spec.examples ?? [],
      }),
    run(context, name, args) {
      const usage = usageLine(name);
      const options = { usage, command: `errand ${name}`, endsAtWord: spec.endsAtWord === true };
      const { values, words } = parseValues(args, flags, options);
      const typed = values as Values<T> & { home?: string };
      const own = context.at(typed.home);
      return spec.run(own, { values: typed, positionals: words, usage });
    },
  };
}

function parseValues(
  args: readonly string[],
  flags: Flags,
  options: Parameters<typeof parseArgs>[2],
): { values: Record<string, string | string[] | boolean>; words: string[] } {
  const shapes = Object.entries(flags).map(([name, { type, short }]): FlagShape => ({
    name,
    ...(short ? { short } : {}),
    accepts: type === 'boolean' ? 'none' : 'value',
  }));
  const parsed = parseArgs(args, shapes, options);
  const values: Record<string, string | string[] | boolean> = {};
  for (const { flag, text } of parsed.flags) {
    const { name } = flag;
    if (text === undefined) values[name] = true;
    else if (flags[name]!.multiple)
      values[name] = [...((values[name] as string[] | undefined) ?? []), text];
    else values[name] = text;
  }
  return { values, words: parsed.words };
}

const flagRow = ([name, { short, value, help, type }]: [string, Flag]): [string, string] => [
  `${short ? `-${short}, ` : ''}--${name}${type === 'string' ? ` ${value ?? 'TEXT'}` : ''}`,
  help,
];

const helpColumns = 80;
const maxFlagColumns = 26;

/** Formats the help of built-in and generated commands. */
export function helpText(
  usage: string,
  about: string,
  rows: [string, string][],
  { examples = [] }: { examples?: readonly string[] } = {},
): string {
  const width = Math.min(maxFlagColumns, Math.max(0, ...rows.map(([flag]) => flag.length)));
  const indent = ' '.repeat(width + 4);
  const flags = rows.map(([flag, text]) => {
    const lines = wrap(text, helpColumns - indent.length).join(`\n${indent}`);
    const gap = flag.length > width && text !== '' ? `\n${indent}` : '  ';
    return `  ${flag.padEnd(width)}${gap}${lines}`.trimEnd();
  });
  const block = (title: string, lines: string[]) => (lines.length > 0 ? ['', title, ...lines] : []);
  const exampleLines = examples.map((line) => `  ${line}`);
  return [
    ...wrap(usage, helpColumns),
    '',
    ...wrap(about, helpColumns),
    ...block('Examples:', exampleLines),
    ...block('Flags:', flags),
    '',
  ].join('\n');
}

function wrap(text: string, columns: number): string[] {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)!;
    if (last === '') lines[lines.length - 1] = word;
    else if (last.length + 1 + word.length <= columns) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

export function wholeNumber(
  text: string | undefined,
  flag: string,
  { negative = false } = {},
): number | undefined {
  if (text === undefined) return undefined;
  if ((negative ? /^-?\d+$/ : /^\d+$/).test(text)) return Number(text);
  throw new AppError('invalidInput', `--${flag} requires a whole number, not ${text}.`);
}
