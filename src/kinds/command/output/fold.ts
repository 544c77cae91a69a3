// Repetition in output, folded without loss: a run of lines is only folded when the hidden lines follow from the shown ones.
// Values that change (`epoch 3 loss 0.41`) and lines that name a place in a file are always shown.
import { number, type Line } from './clean.ts';
import { unprefixed } from './errors/prefix.ts';
import { hasPlace } from './errors/rules.ts';

/** A run of equal lines that is shorter is shown as it is. */
export const equalRunMin = 4;
/** Lines that count on may be what was asked for (a listing): only long runs of them are folded. */
const countingRunMin = 20;

/** Long runs of lines that are equal but for their timestamps, or that only count on, become first, a remark, last. */
export function fold(lines: readonly Line[]): Line[] {
  const folded: Line[] = [];
  for (let i = 0; i < lines.length;) {
    const counting = countingRun(lines, i);
    if (counting - i >= countingRunMin) {
      folded.push(...foldedRun(lines, i, counting, 'lines that count on like this'));
      i = counting;
      continue;
    }
    const equal = equalRun(lines, i);
    if (equal - i >= equalRunMin && !hasPlace(lines[i]!.text)) {
      folded.push(...foldedRun(lines, i, equal, 'more lines like this'));
      i = equal;
      continue;
    }
    folded.push(lines[i]!);
    i++;
  }
  return folded;
}

/** Where the lines that are equal to this one but for their timestamps end. */
function equalRun(lines: readonly Line[], from: number): number {
  const { text } = lines[from]!;
  const { text: said, timed } = unprefixed(text);
  const isEqual = (other: string): boolean =>
    other === text || (timed && other.endsWith(said) && unprefixed(other).text === said);
  let end = from + 1;
  while (end < lines.length && isEqual(lines[end]!.text)) end++;
  return end;
}

/** Where the lines end whose every number stays the same or grows by the same step. */
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
  const text = `[… ${number(to - from - 2)} ${remark} …]`;
  return [first, { at: first.end, end: last.at, text, ended: true }, last];
}
