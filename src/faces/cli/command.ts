// What a command written by hand is: its flags, its help and what it does.
import { parseArgs } from 'node:util';
import { AppError } from '../../errors.ts';
import type { Client } from './client.ts';
import type { Screen } from './print.ts';
import type { Program } from './program.ts';

export interface CommandContext {
  program: Program;
  screen: Screen;
  /** The commands written by hand, for help and completion. */
  commands: Readonly<Record<string, Command>>;
  /** A client of the home's server (started if need be), or of ERRAND_URL. */
  client(): Promise<Client>;
}

export interface Command {
  summary: string;
  /** Where the overview shows it. */
  area: 'jobs' | 'server';
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
  area?: 'jobs';
  /** What comes after the flags, e.g. `ID…`. */
  args?: string;
  flags: T;
  run(context: CommandContext, words: Words<T>): Promise<number>;
}

export type Words<T extends Flags> = {
  values: ReturnType<typeof parse<T>>['values'];
  positionals: string[];
  /** The usage line, for the hint of an error. */
  usage: string;
};

export function command<T extends Flags>(spec: Spec<T>): Command {
  const usageOf = (name: string) =>
    ['Usage: errand', name, '[flags]', spec.args].filter(Boolean).join(' ');
  return {
    summary: spec.summary,
    area: spec.area ?? 'server',
    flags: Object.keys(spec.flags).map((name) => `--${name}`),
    takesJob: spec.args?.startsWith('ID') ?? false,
    help: (name) => helpText(usageOf(name), spec.summary, Object.entries(spec.flags).map(flagRow)),
    run(context, name, args) {
      const usage = usageOf(name);
      const { values, positionals } = parse(args, spec.flags, usage);
      return spec.run(context, { values, positionals, usage });
    },
  };
}

function parse<T extends Flags>(args: string[], options: T, usage: string) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new AppError('invalidInput', wrongFlag(error as Error), {
      hint: `${usage}; --help lists the flags.`,
      cause: error,
    });
  }
}

/** Which flag it is about stands only in the text of Node's own error. */
function wrongFlag({ message }: Error): string {
  const flag = /'(?:-\w, )?(--?[^\s'<]+)/.exec(message)?.[1] ?? 'A flag';
  if (message.startsWith('Unknown option')) return `There is no flag ${flag}.`;
  if (message.includes('does not take')) return `${flag} takes no value.`;
  const dashed = message.includes('ambiguous') ? ` One that begins with a dash: ${flag}=-…` : '';
  return `${flag} needs a value.${dashed}`;
}

const flagRow = ([name, { short, value, help, type }]: [string, Flag]): [string, string] => [
  `${short ? `-${short}, ` : ''}--${name}${type === 'string' ? ` ${value ?? 'TEXT'}` : ''}`,
  help,
];

const helpColumns = 100;
const flagColumnsMax = 32;

/** The one form of help, also for commands made from operations. */
export function helpText(usage: string, about: string, rows: [string, string][]): string {
  const width = Math.min(flagColumnsMax, Math.max(0, ...rows.map(([flag]) => flag.length)));
  const indent = ' '.repeat(width + 4);
  const flags = rows.map(([flag, text]) => {
    const lines = wrap(text, helpColumns - indent.length).join(`\n${indent}`);
    const gap = flag.length > width && text !== '' ? `\n${indent}` : '  ';
    return `  ${flag.padEnd(width)}${gap}${lines}`.trimEnd();
  });
  const head = [usage, '', ...wrap(about, helpColumns)];
  return [...head, ...(flags.length > 0 ? ['', 'Flags:', ...flags] : []), ''].join('\n');
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
  throw new AppError('invalidInput', `--${flag} needs a whole number, not ${text}.`);
}
