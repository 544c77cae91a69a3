// The argument parser of built-in and generated commands.
import { AppError } from '../../errors.ts';
import { closestWords, didYouMean } from './suggest.ts';

export interface FlagShape {
  /** Without dashes. */
  name: string;
  /** Alternative names. */
  spellings?: readonly string[];
  /** One letter. */
  short?: string;
  /** `boolean`: `--paused`, `--no-paused`, `--paused false`. */
  accepts: 'none' | 'value' | 'boolean';
}

interface ParsedFlag<F extends FlagShape = FlagShape> {
  flag: F;
  /** The name that was typed, with dashes. */
  typed: string;
  /** Undefined for a flag without a value. */
  text: string | undefined;
  negated: boolean;
}

interface ParsedArgs<F extends FlagShape = FlagShape> {
  flags: ParsedFlag<F>[];
  words: string[];
}

interface ParseOptions {
  usage: string;
  /** The command, for errors: `errand list`. */
  command: string;
  /** Flags end at the first positional argument: what follows belongs to another program. */
  endsAtWord?: boolean;
}

export function parseArgs<F extends FlagShape>(
  argv: readonly string[],
  shapes: readonly F[],
  options: ParseOptions,
): ParsedArgs<F> {
  const parsed: ParsedArgs<F> = { flags: [], words: [] };
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--') {
      parsed.words.push(...rest);
      break;
    }
    if (word.startsWith('--')) parsed.flags.push(longFlag(word, rest, shapes, options));
    else if (isShort(word)) parsed.flags.push(...shortFlags(word, rest, shapes, options));
    else {
      parsed.words.push(word);
      if (options.endsAtWord) {
        parsed.words.push(...(rest[0] === '--' ? rest.slice(1) : rest));
        break;
      }
    }
  }
  return parsed;
}

/** `-` stands for stdin and `-5` is a number. */
const isShort = (word: string): boolean => /^-[^-\d.]/.test(word);

function longFlag<F extends FlagShape>(
  word: string,
  rest: string[],
  shapes: readonly F[],
  options: ParseOptions,
): ParsedFlag<F> {
  const at = word.indexOf('=');
  const typed = at < 0 ? word : word.slice(0, at);
  const inline = at < 0 ? undefined : word.slice(at + 1);
  const name = typed.slice(2);
  const flag = shapes.find((shape) => shape.name === name || shape.spellings?.includes(name));
  if (flag) return { flag, typed, text: valueOf(flag, typed, inline, rest), negated: false };
  const negated = name.startsWith('no-') ? name.slice(3) : undefined;
  const positive = shapes.find((shape) => shape.accepts === 'boolean' && shape.name === negated);
  if (!positive) throw unknownFlag(typed, shapes, options);
  return { flag: positive, typed, text: inline, negated: true };
}

function shortFlags<F extends FlagShape>(
  word: string,
  rest: string[],
  shapes: readonly F[],
  options: ParseOptions,
): ParsedFlag<F>[] {
  const parsed: ParsedFlag<F>[] = [];
  for (let letters = word.slice(1); letters !== ''; letters = letters.slice(1)) {
    const typed = `-${letters[0]}`;
    const flag = shapes.find(({ short }) => short === letters[0]);
    if (!flag) throw unknownFlag(typed, shapes, options);
    if (flag.accepts === 'value') {
      const inline = letters.slice(1).replace(/^=/, '') || undefined;
      parsed.push({ flag, typed, text: valueOf(flag, typed, inline, rest), negated: false });
      break;
    }
    parsed.push({ flag, typed, text: undefined, negated: false });
  }
  return parsed;
}

function valueOf(
  { accepts }: FlagShape,
  typed: string,
  inline: string | undefined,
  rest: string[],
): string | undefined {
  if (accepts === 'boolean') return inline ?? (isBooleanText(rest[0]) ? rest.shift() : undefined);
  if (accepts === 'none') {
    if (inline === undefined) return undefined;
    throw new AppError('invalidInput', `${typed} does not accept a value.`);
  }
  const next = rest[0];
  const isMissing = next === undefined || (next.startsWith('-') && next !== '-');
  if (inline === undefined && isMissing) {
    const dashed =
      next === undefined ? '' : ` Write a value that begins with a dash as ${typed}=-…`;
    throw new AppError('invalidInput', `${typed} requires a value.${dashed}`);
  }
  return inline ?? rest.shift();
}

const isBooleanText = (text: string | undefined): boolean => text === 'true' || text === 'false';

export function parseBoolean(typed: string, text: string | undefined): boolean {
  if (text === undefined || isBooleanText(text)) return text !== 'false';
  throw new AppError('invalidInput', `${typed} must be true or false, not ${text}.`);
}

function unknownFlag(
  typed: string,
  shapes: readonly FlagShape[],
  { usage, command }: ParseOptions,
): AppError {
  const known = shapes.map(({ name }) => `--${name}`);
  const near = typed.startsWith('--') ? didYouMean(closestWords(typed, known)) : undefined;
  return new AppError('invalidInput', `Unknown flag ${typed} for \`${command}\`.`, {
    hint: near ?? `${usage}. --help lists the flags.`,
  });
}

/**
 * Removes `--home DIR` before argv is parsed, because generated commands come from the server of that home. Not for commands
 * that pass their arguments on to another program. The last one wins; a flag without a value stays, and parsing rejects it.
 */
export function splitHomeFlag(argv: readonly string[]): { home?: string; rest: string[] } {
  const end = argv.indexOf('--');
  const own = end < 0 ? [...argv] : argv.slice(0, end);
  const rest: string[] = [];
  let home: string | undefined;
  for (let word = own.shift(); word !== undefined; word = own.shift()) {
    if (word.startsWith('--home=')) home = word.slice('--home='.length);
    else if (word === '--home' && own.length > 0) home = own.shift();
    else rest.push(word);
  }
  if (end >= 0) rest.push(...argv.slice(end));
  return { rest, ...(home === undefined ? {} : { home }) };
}
