// Real tool output (test/fixtures/errors, see its README) and how well errors are found in it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cleanText } from '../../../../../src/kinds/command/output/text.ts';
import { findErrors } from '../../../../../src/kinds/command/output/errors/find.ts';
import { Log } from '../../../../../src/kinds/command/output/log.ts';
import { systemClock } from '../../../../../src/runtime/clock.ts';

const folder = join(import.meta.dirname, '../../../../fixtures/errors');

export interface Sample {
  tool: string;
  name: string;
  /** Handwritten because the tool is not available. Not part of the score. */
  handWritten: boolean;
  lines: readonly { text: string; mark: 'wanted' | 'useful' | 'other' }[];
}

const marks = new Map([
  ['> ', 'wanted'],
  ['+ ', 'useful'],
  ['  ', 'other'],
] as const);

export function samples(): Sample[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name: tool }) => readdirSync(join(folder, tool)).map((file) => sample(tool, file)));
}

function sample(tool: string, file: string): Sample {
  const [head, ...body] = readFileSync(join(folder, tool, file), 'utf8')
    .trimEnd()
    .split('\n');
  const lines = body.map((line) => {
    const mark = marks.get(line.slice(0, 2) as '> ');
    if (!mark) throw new Error(`${tool}/${file}: no mark before «${line}»`);
    return { text: line.slice(2), mark };
  });
  return { tool, name: file, handWritten: head!.startsWith('# hand-written'), lines };
}

/** Renders the same lines as a runner prints them. `at` maps a sample line to an output line. */
export type Variant = (texts: readonly string[]) => {
  output: string;
  at: (line: number) => number;
};

const each =
  (change: (text: string, i: number) => string): Variant =>
  (texts) => ({
    output: texts.map((text, i) => `${change(text, i)}\n`).join(''),
    at: (line) => line,
  });

export const variants: Record<string, Variant> = {
  plain: each((text) => text),
  crlf: each((text) => `${text}\r`),
  compose: each((text) => `web-1  | ${text}`),
  numbered: each((text) => `[1] ${text}`),
  timestamps: each((text, i) => `2026-11-18T09:${10 + (i % 50)}:07.1230000Z ${text}`),
  clock: each((text, i) => `[09:${10 + (i % 50)}:07] ${text}`),
  progress: each((text) =>
    cleanText(text).trim() ? `loading 10%\rloading 70%\r\u001B[2K${text}` : text,
  ),
  colour: each((text) => `\u001B[31m${text}\u001B[0m`),
  interleaved: (texts) => ({
    output: texts.map((text, i) => `api | ${text}\nweb | GET /health 200 ${i} ms\n`).join(''),
    at: (line) => line * 2,
  }),
};

export interface Score {
  wanted: number;
  found: number;
  shown: number;
  right: number;
}

export const noScore = (): Score => ({ wanted: 0, found: 0, shown: 0, right: 0 });

export function plus(a: Score, b: Score): Score {
  return {
    wanted: a.wanted + b.wanted,
    found: a.found + b.found,
    shown: a.shown + b.shown,
    right: a.right + b.right,
  };
}

export const recallOf = ({ wanted, found }: Score): number => (wanted === 0 ? 1 : found / wanted);
export const precisionOf = ({ shown, right }: Score): number => (shown === 0 ? 1 : right / shown);

/** Recall over the lines that a person would point at, precision over all shown lines. */
export async function scoreOf(
  { lines }: Sample,
  variant: Variant,
  without: ReadonlySet<string> = new Set(),
): Promise<Score> {
  const { output, at } = variant(lines.map(({ text }) => text));
  const view = { path: '', bytes: Buffer.from(output), start: 0, growing: false };
  await using log = await Log.open(view);
  const { text } = await findErrors(log, { maxBytes: 65_536, raw: true, without }, systemClock);
  const shown = new Set(
    text
      .split('\n')
      .flatMap((line) => (/^\d+[:-]/.test(line) ? [Number.parseInt(line, 10) - 1] : [])),
  );
  const score = noScore();
  score.shown = shown.size;
  lines.forEach(({ mark }, i) => {
    if (mark === 'wanted') score.wanted++;
    if (!shown.has(at(i))) return;
    if (mark === 'wanted') score.found++;
    if (mark !== 'other') score.right++;
  });
  return score;
}
