// Patterns that come from callers, for Ajv: on RE2, which takes time in proportion to the text whatever the pattern is.
import { RE2JS } from 're2js';

/** Throws for what RE2 does not know: looking ahead or behind, and references to groups. */
function safePattern(pattern: string): RegExp {
  const compiled = RE2JS.compile(pattern);
  const test = (text: string) => compiled.matcher(text).find();
  // All that Ajv calls; it tells patterns apart by their text.
  return { test, toString: () => pattern } as unknown as RegExp;
}

/** The option `code.regExp` of Ajv. */
export const ajvPattern = Object.assign(safePattern, { code: 'safePattern' });
