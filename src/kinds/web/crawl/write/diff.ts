// Compares two texts line by line and returns the hunks of a unified diff. The number of edits is limited: texts with
// little in common are reported as rewritten, because comparing them takes quadratic time.
import { diffPackage } from '../../../../runtime/packages.ts';

const maxEdits = 1000;
const contextLines = 2;

interface TextDiff {
  added: number;
  removed: number;
  /** Hunks of a unified diff. Undefined when the whole text was rewritten. */
  text?: string;
}

export function diffLines(before: string, after: string): TextDiff {
  const options = { context: contextLines, maxEditLength: maxEdits };
  // Ended by a newline, the last line counts as unchanged when another one follows it.
  const texts = [`${before}\n`, `${after}\n`] as const;
  const patch = diffPackage().structuredPatch('', '', ...texts, '', '', options);
  if (!patch) return { added: lineCount(after), removed: lineCount(before) };
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const { formatPatch, OMIT_HEADERS } = diffPackage();
  return {
    added: lines.filter((line) => line.startsWith('+')).length,
    removed: lines.filter((line) => line.startsWith('-')).length,
    text: formatPatch(patch, OMIT_HEADERS).replace(/\n$/, ''),
  };
}

const lineCount = (text: string): number => text.split('\n').length;
