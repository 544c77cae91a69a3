// The one argument parser: hand-written commands and commands made from operations both describe their flags to it.
import { AppError } from '../../errors.ts';
import { closestWords, didYouMean } from './suggest.ts';

export interface FlagShape {
  /** As it is typed, without dashes. */
  name: string;
  /** Other spellings that mean the same. */
  spellings?: readonly string[];
  /** One letter. */
  short?: string;
  /** `truth`: `--paused`, `--no-paused`, `--paused false`. */
  takes: 'nothing' | 'value' | 'truth';
}

export interface GivenFlag<F extends FlagShape = FlagShape> {
  flag: F;
  /** The spelling that was used, with its dashes. */
  typed: string;
  /** Undefined for a flag without a value. */
  text: string | undefined;
  negated: boolean;
}

export interface ParsedArgs<F extends FlagShape = FlagShape> {
  flags: GivenFlag<F>[];
  words: string[];
}

export interface ParseOptions {
  usage: string;
  /** What the flags belong to, for errors: `errand list`. */
  command: string;
  /** The first word ends the flags: what follows belongs to another program. */
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
): GivenFlag<F> {
  const at = word.indexOf('=');
  const typed = at < 0 ? word : word.slice(0, at);
  const inline = at < 0 ? undefined : word.slice(at + 1);
  const name = typed.slice(2);
  const flag = shapes.find((shape) => shape.name === name || shape.spellings?.includes(name));
  if (flag) return { flag, typed, text: valueOf(flag, typed, inline, rest), negated: false };
  const negated = name.startsWith('no-') ? name.slice(3) : undefined;
  const positive = shapes.find((shape) => shape.takes === 'truth' && shape.name === negated);
  if (!positive) throw unknownFlag(typed, shapes, options);
  return { flag: positive, typed, text: inline, negated: true };
}

function shortFlags<F extends FlagShape>(
  word: string,
  rest: string[],
  shapes: readonly F[],
  options: ParseOptions,
): GivenFlag<F>[] {
  const given: GivenFlag<F>[] = [];
  for (let letters = word.slice(1); letters !== ''; letters = letters.slice(1)) {
    const typed = `-${letters[0]}`;
    const flag = shapes.find(({ short }) => short === letters[0]);
    if (!flag) throw unknownFlag(typed, shapes, options);
    if (flag.takes === 'value') {
      const inline = letters.slice(1).replace(/^=/, '') || undefined;
      given.push({ flag, typed, text: valueOf(flag, typed, inline, rest), negated: false });
      break;
    }
    given.push({ flag, typed, text: undefined, negated: false });
  }
  return given;
}

function valueOf(
  { takes }: FlagShape,
  typed: string,
  inline: string | undefined,
  rest: string[],
): string | undefined {
  if (takes === 'truth') return inline ?? (isTruth(rest[0]) ? rest.shift() : undefined);
  if (takes === 'nothing') {
    if (inline === undefined) return undefined;
    throw new AppError('invalidInput', `${typed} takes no value.`);
  }
  const next = rest[0];
  const isMissing = next === undefined || (next.startsWith('-') && next !== '-');
  if (inline === undefined && isMissing) {
    const dashed = next === undefined ? '' : ` One that begins with a dash: ${typed}=-…`;
    throw new AppError('invalidInput', `${typed} needs a value.${dashed}`);
  }
  return inline ?? rest.shift();
}

export const isTruth = (text: string | undefined): boolean => text === 'true' || text === 'false';

export function truthOf(typed: string, text: string | undefined): boolean {
  if (text === undefined || isTruth(text)) return text !== 'false';
  throw new AppError('invalidInput', `${typed} is true or false, not ${text}.`);
}

function unknownFlag(
  typed: string,
  shapes: readonly FlagShape[],
  { usage, command }: ParseOptions,
): AppError {
  const known = shapes.map(({ name }) => `--${name}`);
  const near = typed.startsWith('--') ? didYouMean(closestWords(typed, known)) : undefined;
  return new AppError('invalidInput', `There is no flag ${typed} for \`${command}\`.`, {
    hint: near ?? `${usage}; --help lists the flags.`,
  });
}

/**
 * `--home DIR` before anything else is known: the commands themselves come from the server of that home. Only for
 * commands whose words after a flag are never another program's.
 */
export function homeFlag(argv: readonly string[]): string | undefined {
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const at = own.findLastIndex((word) => word === '--home' || word.startsWith('--home='));
  if (at < 0) return undefined;
  return own[at] === '--home' ? own[at + 1] : own[at]!.slice('--home='.length);
}
