// Labels the blocks of a page as main content by comparing their words with the reference text. A
// label is the share of a block's words in runs of four that also occur in the reference. Short
// blocks need matching neighbors (or a whole line of the reference), because "Home" or "Price"
// alone proves nothing. Text that a page repeats more often than the reference is main content
// only where its neighbors are: a name in the list, not the same name in the menu.
import { tokens } from './score.ts';

const run = 4;
/** Number of blocks before and after that decide about a repeated block. */
const reachAround = 8;
/** A repeated block with this much less matching context than the best one is not main content. */
const elsewhereShare = 0.5;

export interface Label {
  value: number;
  /** Confidence of the label: short blocks that match only out of context count less. */
  sure: number;
}

export function labelBlocks(texts: readonly string[], truth: string): Label[] {
  const truthWords = tokens(truth);
  const runs = new Map<string, number>();
  for (let i = 0; i + run <= truthWords.length; i++) add(runs, truthWords.slice(i, i + run));
  const inside = ` ${truthWords.join(' ')} `;
  const lines = new Map<string, number>();
  for (const line of truth.split('\n')) {
    const words = tokens(line);
    if (words.length > 0) add(lines, words);
  }
  const words = texts.map(tokens);
  const flat = words.flat();
  let at = 0;
  const labels = words.map((own) => {
    const start = at;
    at += own.length;
    if (own.length >= run + 1) return { value: coverage(own, runs), sure: 1 };
    return shortLabel(flat, start, own, { runs, inside, lines });
  });
  withoutRepeats(words, labels, inside);
  return labels;
}

/** Clears the label of repeated text whose context is clearly less main content. */
function withoutRepeats(words: readonly string[][], labels: Label[], inside: string): void {
  const places = new Map<string, number[]>();
  words.forEach((own, i) => {
    if (labels[i]!.value < 0.5) return;
    const text = own.join(' ');
    places.set(text, [...(places.get(text) ?? []), i]);
  });
  const found = labels.map(({ value }) => value);
  for (const [text, list] of places) {
    const wanted = Math.max(1, inside.split(` ${text} `).length - 1);
    if (list.length <= wanted) continue;
    const shares = list.map((i) => shareAround(i, words, found));
    const most = Math.max(...shares);
    list.forEach((i, k) => {
      if (shares[k]! < elsewhereShare * most) labels[i] = { value: 0, sure: 0.5 };
    });
  }
}

/** Share of the words around a block, without its own, that are in the reference. */
function shareAround(at: number, words: readonly string[][], found: readonly number[]): number {
  let all = 1;
  let right = 0;
  const end = Math.min(words.length - 1, at + reachAround);
  for (let i = Math.max(0, at - reachAround); i <= end; i++) {
    if (i === at) continue;
    all += words[i]!.length;
    right += words[i]!.length * found[i]!;
  }
  return right / all;
}

function add(counts: Map<string, number>, words: string[]): void {
  const key = words.join(' ');
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function coverage(words: string[], runs: ReadonlyMap<string, number>): number {
  const covered = new Uint8Array(words.length);
  for (let i = 0; i + run <= words.length; i++) {
    if (runs.has(words.slice(i, i + run).join(' '))) covered.fill(1, i, i + run);
  }
  return covered.reduce((a, b) => a + b, 0) / words.length;
}

interface Truth {
  runs: ReadonlyMap<string, number>;
  inside: string;
  lines: ReadonlyMap<string, number>;
}

function shortLabel(flat: string[], start: number, own: string[], truth: Truth): Label {
  if (own.length === 0) return { value: 0, sure: 0 };
  const text = own.join(' ');
  if (!truth.inside.includes(` ${text} `)) return { value: 0, sure: 1 };
  const end = start + own.length;
  const reach = Math.max(run - own.length, 2);
  const before = flat.slice(Math.max(0, start - reach), end).join(' ');
  const after = flat.slice(start, end + reach).join(' ');
  const held = (words: string) => truth.inside.includes(` ${words} `);
  if (held(before) || held(after)) return { value: 1, sure: 1 };
  if (truth.lines.has(text)) return { value: 0.8, sure: 0.7 };
  return { value: 0.2, sure: 0.5 };
}
