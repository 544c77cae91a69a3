// Folds repetition in output without loss: lines are hidden only if the shown lines imply them. Changing values
// (`epoch 3 loss 0.41`) and lines that contain a file location are always shown.
import { formatNumber, type Line } from './text.ts';
import { unprefixed } from './errors/prefix.ts';
import { hasPlace } from './errors/rules.ts';

/** Shorter runs of equal lines are not folded. */
export const minEqualRun = 4;
/** Counting lines may be the wanted output (a listing), so only long runs are folded. */
const minCountingRun = 20;

/**
 * Replaces long runs of lines that are equal except for timestamps, or that only count up, by the first line, a remark and
 * the last line.
 */
export function fold(lines: readonly Line[]): Line[] {
  const folded: Line[] = [];
  for (let i = 0; i < lines.length;) {
    const counting = countingRun(lines, i);
    if (counting - i >= minCountingRun) {
      folded.push(...foldedRun(lines, i, counting, 'lines that count up like this'));
      i = counting;
      continue;
    }
    const equal = equalRun(lines, i);
    if (equal - i >= minEqualRun && !hasPlace(lines[i]!.text)) {
      folded.push(...foldedRun(lines, i, equal, 'more lines like this'));
      i = equal;
      continue;
    }
    folded.push(lines[i]!);
    i++;
  }
  return folded;
}

/** Returns the end of the run of lines that equal this one except for timestamps. */
function equalRun(lines: readonly Line[], from: number): number {
  const { text } = lines[from]!;
  const { text: message, timed } = unprefixed(text);
  const isEqual = (other: string): boolean =>
    other === text || (timed && other.endsWith(message) && unprefixed(other).text === message);
  let end = from + 1;
  while (end < lines.length && isEqual(lines[end]!.text)) end++;
  return end;
}

/** Returns the end of the run of lines in which every number stays the same or grows by the same step. */
function countingRun(lines: readonly Line[], from: number): number {
  const { text } = lines[from]!;
  const next = lines[from + 1]?.text;
  if (next === undefined || next === text || !hasDigit.test(text) || hasPlace(text)) return from;
  const shape = shapeOf(text);
  if (shapeOf(next) !== shape) return from;
  const start = numbersOf(text);
  const steps = numbersOf(next).map((value, i) => value - start[i]!);
  let end = from + 1;
  while (end < lines.length) {
    const { text: other } = lines[end]!;
    if (shapeOf(other) !== shape) break;
    const count = end - from;
    if (!numbersOf(other).every((value, i) => value === start[i]! + count * steps[i]!)) break;
    end++;
  }
  return end;
}

const hasDigit = /\d/;
const shapeOf = (text: string): string => text.replaceAll(/\d+/g, '#');
const numbersOf = (text: string): number[] => (text.match(/\d+/g) ?? []).map(Number);

function foldedRun(lines: readonly Line[], from: number, to: number, remark: string): Line[] {
  const first = lines[from]!;
  const last = lines[to - 1]!;
  if (first.text === '') return [{ ...last, at: first.at }];
  const text = `[… ${formatNumber(to - from - 2)} ${remark} …]`;
  return [first, { at: first.end, end: last.at, text, ended: true }, last];
}
