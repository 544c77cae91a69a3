// Compiles URL patterns from callers. They run on every URL, so they are RE2: linear time, no look-around, no back references.
import type { RE2JS } from 're2js';
import { AppError } from '../../../../errors.ts';
import { re2js } from '../../../../runtime/packages.ts';

export const maxPatterns = 1000;
export const maxPatternChars = 2000;
const maxPatternCharsTotal = 100_000;

export type Matcher = (text: string) => boolean;

/** Returns a matcher that is true if any pattern matches a part of the text. */
export function compilePatterns(patterns: readonly string[]): Matcher {
  const total = patterns.reduce((sum, pattern) => sum + pattern.length, 0);
  if (patterns.length > maxPatterns || total > maxPatternCharsTotal) {
    throw new AppError(
      'invalidInput',
      `Too many patterns: the limits are ${maxPatterns} patterns and ${maxPatternCharsTotal} characters in total.`,
    );
  }
  const compiled = patterns.map((pattern) => compileOne(pattern));
  return (text) => compiled.some((regex) => regex.matcher(text).find());
}

function compileOne(pattern: string): RE2JS {
  try {
    return re2js().RE2JS.compile(pattern);
  } catch (error) {
    throw new AppError(
      'invalidInput',
      `The pattern "${pattern.slice(0, 100)}" is invalid: ${(error as Error).message}`,
      {
        hint: 'Patterns use RE2 syntax, without look-around and back references. Escape literal dots: \\.',
      },
    );
  }
}
