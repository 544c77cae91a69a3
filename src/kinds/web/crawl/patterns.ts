// Patterns of callers run on every address, so they are RE2: linear time, no look-around, no back references.
import { RE2JS } from 're2js';
import { AppError } from '../../../errors.ts';

export const patternsMax = 1000;
export const patternCharsMax = 2000;
const patternCharsTotalMax = 100_000;

export type Matcher = (text: string) => boolean;

/** Any of them found anywhere in the text. */
export function compilePatterns(patterns: readonly string[]): Matcher {
  const total = patterns.reduce((sum, pattern) => sum + pattern.length, 0);
  if (patterns.length > patternsMax || total > patternCharsTotalMax) {
    throw new AppError(
      'invalidInput',
      `At most ${patternsMax} patterns with ${patternCharsTotalMax} characters together.`,
    );
  }
  const compiled = patterns.map((pattern) => compileOne(pattern));
  return (text) => compiled.some((regex) => regex.matcher(text).find());
}

function compileOne(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    throw new AppError(
      'invalidInput',
      `The pattern "${pattern.slice(0, 100)}" cannot be used: ${(error as Error).message}`,
      { hint: 'Patterns are RE2: no look-around and no back references. Escape literal dots: \\.' },
    );
  }
}
