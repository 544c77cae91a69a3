// What a command written by hand is: its flags, its help and what it does.
import { AppError } from '../../errors.ts';
import { parseArgs, type FlagShape } from './args.ts';
import type { Client } from './client.ts';
import type { Screen } from './screen.ts';
import type { Program } from './program.ts';

export interface CommandContext {
  program: Program;
  screen: Screen;
  /** The commands written by hand, for help and completion. */
  commands: Readonly<Record<string, Command>>;
  /** A client of the home's server (started if need be), or of ERRAND_URL. */
  client(): Promise<Client>;
  /** The same for another home; for none, the context itself. */
  at(home: string | undefined): CommandContext;
}

export interface Command {
  summary: string;
  /** `--detach` …, for completion. */
  flags: readonly string[];
  /** Whether it is said of a job, also for completion. */
  takesJob: boolean;
  help(name: string): string;
  /** Takes the words after its own name; answers the exit code. */
  run(context: CommandContext, name: string, args: string[]): Promise<number>;
}

export interface Flag {
  type: 'string' | 'boolean';
  short?: string;
  multiple?: boolean;
  /** What stands for the value in the help, e.g. N. */
  value?: string;
  help: string;
}

type Flags = Record<string, Flag>;

interface Spec<T extends Flags> {
  summary: string;
  /** More about it, for its own help. */
  about?: string;
  /** Lines to copy, for its own help. */
  examples?: readonly string[];
  /** What comes after the flags, e.g. `ID…`. */
  args?: string;
  flags: T;
  /** The first word ends the flags: what follows is another program with flags of its own. */
  endsAtWord?: boolean;
  run(context: CommandContext, words: Words<T>): Promise<number>;
}

/** Flags that every command takes. */
const commonFlags = {
  home: { type: 'string', value: 'DIR', help: 'use the server of this home, not of ERRAND_HOME' },
} as const satisfies Flags;

type Values<T extends Flags> = {
  -readonly [K in keyof T]?: T[K]['type'] extends 'boolean'
    ? boolean
    : T[K] extends { multiple: true }
      ? string[]
      : string;
};

export type Words<T extends Flags> = {
  values: Values<T> & { home?: string };
  positionals: string[];
  /** The usage line, for the hint of an error. */
  usage: string;
};

export function command<T extends Flags>(spec: Spec<T>): Command {
  const usageOf = (name: string) =>
    ['Usage: errand', name, '[flags]', spec.args].filter(Boolean).join(' ');
  const flags: Flags = { ...spec.flags, ...commonFlags };
  return {
    summary: spec.summary,
    flags: Object.keys(flags).map((name) => `--${name}`),
    takesJob: spec.args?.startsWith('ID') ?? false,
    help: (name) =>
      helpText(usageOf(name), spec.about ?? spec.summary, Object.entries(flags).map(flagRow), {
        examples: spec.examples ?? [],
      }),
    run(context, name, args) {
      const usage = usageOf(name);
      const options = { usage, command: `errand ${name}`, endsAtWord: spec.endsAtWord === true };
      const { values, words } = valuesOf(args, flags, options);
      const typed = values as Values<T> & { home?: string };
      const own = context.at(typed.home);
      return spec.run(own, { values: typed, positionals: words, usage });
    },
  };
}

function valuesOf(
  args: readonly string[],
  flags: Flags,
  options: Parameters<typeof parseArgs>[2],
): { values: Record<string, string | string[] | boolean>; words: string[] } {
  const shapes = Object.entries(flags).map(([name, { type, short }]): FlagShape => ({
    name,
    ...(short ? { short } : {}),
    takes: type === 'boolean' ? 'nothing' : 'value',
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
const flagColumnsMax = 26;

/** The one form of help, also for commands made from operations. */
export function helpText(
  usage: string,
  about: string,
  rows: [string, string][],
  { examples = [] }: { examples?: readonly string[] } = {},
): string {
  const width = Math.min(flagColumnsMax, Math.max(0, ...rows.map(([flag]) => flag.length)));
  const indent = ' '.repeat(width + 4);
  const flags = rows.map(([flag, text]) => {
    const lines = wrap(text, helpColumns - indent.length).join(`\n${indent}`);
    const gap = flag.length > width && text !== '' ? `\n${indent}` : '  ';
    return `  ${flag.padEnd(width)}${gap}${lines}`.trimEnd();
  });
  const block = (title: string, lines: string[]) => (lines.length > 0 ? ['', title, ...lines] : []);
  const shown = examples.map((line) => `  ${line}`);
  return [
    ...wrap(usage, helpColumns),
    '',
    ...wrap(about, helpColumns),
    ...block('Examples:', shown),
    ...block('Flags:', flags),
    '',
  ].join('\n');
}

export function wrap(text: string, columns: number): string[] {
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
  throw new AppError('invalidInput', `--${flag} needs a whole number, not ${text}.`);
}
