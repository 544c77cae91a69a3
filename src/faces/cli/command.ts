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
  /** `--detach` …, for completion. */
  flags: readonly string[];
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
    flags: Object.keys(spec.flags).map((name) => `--${name}`),
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
    throw new AppError('invalidInput', `${(error as Error).message.split('. ')[0]!}.`, {
      hint: `${usage}; --help lists the flags.`,
      cause: error,
    });
  }
}

const flagRow = ([name, { short, value, help, type }]: [string, Flag]): [string, string] => [
  `${short ? `-${short}, ` : ''}--${name}${type === 'string' ? ` ${value ?? 'TEXT'}` : ''}`,
  help,
];

/** The one form of help, also for commands made from operations. */
export function helpText(usage: string, about: string, rows: [string, string][]): string {
  const width = Math.max(0, ...rows.map(([flag]) => flag.length));
  const flags = rows.map(([flag, text]) => `  ${flag.padEnd(width)}  ${text}`.trimEnd());
  return [usage, '', about, ...(flags.length > 0 ? ['', 'Flags:', ...flags] : []), ''].join('\n');
}

export function wholeNumber(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  throw new AppError('invalidInput', `--${flag} needs a whole number, not ${text}.`);
}
