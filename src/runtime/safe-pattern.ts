// Runs patterns from callers on RE2 for Ajv: matching time is linear in the text for every pattern.
import { re2js } from './packages.ts';

/** Throws for patterns that RE2 does not support: lookahead, lookbehind and backreferences. */
function safePattern(pattern: string): RegExp {
  const compiled = re2js().RE2JS.compile(pattern);
  const test = (text: string) => compiled.matcher(text).find();
  // Everything that Ajv calls. Ajv identifies patterns by their text.
  return { test, toString: () => pattern } as unknown as RegExp;
}

/** Ajv's option `code.regExp`. */
export const ajvPattern = Object.assign(safePattern, { code: 'safePattern' });
