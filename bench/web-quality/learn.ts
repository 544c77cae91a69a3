// Builds a model from labelled pages: blocks with labels and weights, the lexicon, the forest. It
// never reads the pages that a model is measured on.
import { segment, type Ancestor, type Segments } from '../../src/kinds/web/main-content/blocks.ts';
import type { Document } from '../../src/kinds/web/read/dom.ts';
import { parseHtml } from '../../src/kinds/web/read/parse-html.ts';
import {
  describeBlocks,
  featureNames,
  withLexicon,
  type BlockFeatures,
} from '../../src/kinds/web/main-content/features.ts';
import { Visibility } from '../../src/kinds/web/read/hidden.ts';
import type { Lexicon } from '../../src/kinds/web/main-content/lexicon.ts';
import { readSignals, type PageSignals } from '../../src/kinds/web/main-content/signals.ts';
import { Forest, type ForestTable } from '../../src/kinds/web/main-content/trees.ts';
import { boost, type BoostOptions, type Rows } from './boost.ts';
import type { Sample } from './data.ts';
import { labelBlocks, type Label } from './labels.ts';
import { wordScore } from './score.ts';
import { blockTokens, Vocabulary, type WordRow } from './words.ts';

/**
 * Shallow trees, large leaves, few rows and columns at a time: even with 1,497 pages the risk is overfitting.
 * Deeper trees with larger steps are better than for 420 pages, and 400 of them are faster than 640.
 */
export const boostDefaults: BoostOptions = {
  trees: 400,
  depth: 6,
  rate: 0.06,
  lambda: 5,
  minLeaf: 4,
  rowShare: 0.25,
  columnShare: 0.12,
  seed: 1,
};

/**
 * A page whose reference text cannot be assembled from its blocks teaches nothing: a script renders
 * the text, or it belongs to another page. The same holds for a page full of text with an empty
 * reference; with little text it is a frame without content. Such pages still count in measurements.
 */
const minReach = 0.5;
const maxFrameWords = 600;

export interface Item {
  sample: Sample;
  root: Document;
  segments: Segments;
  signals: PageSignals;
  described: BlockFeatures;
  labels: Label[];
  weights: number[];
  tokens: Int32Array[];
  teaches: boolean;
}

export interface Trained {
  lexicon: Lexicon;
  forest: ForestTable;
}

const vocabulary = new Vocabulary();

export function newItem(sample: Sample): Item {
  const root = parseHtml(sample.html);
  const segments = segment(root, new Visibility(root));
  const { blocks } = segments;
  const signals = readSignals(root);
  const labels = labelBlocks(
    blocks.map(({ text }) => text),
    sample.truth,
  );
  return {
    sample,
    root,
    segments,
    signals,
    described: describeBlocks(segments, signals),
    labels,
    weights: blockWeights(segments, labels),
    tokens: blocks.map((block) =>
      Int32Array.from(blockTokens(block), (token) => vocabulary.id(token, sample.site)),
    ),
    teaches: teaches(segments, labels, sample.truth),
  };
}

function teaches({ blocks, words }: Segments, labels: readonly Label[], truth: string): boolean {
  if (truth === '') return words < maxFrameWords;
  const best = blocks.filter((_, i) => labels[i]!.value >= 0.5).map(({ text }) => text);
  return wordScore(best.join('\n'), truth).f1 >= minReach;
}

/**
 * A block counts by its words, but all pages count equally: half by the page's text, half by its
 * main text.
 */
function blockWeights({ blocks }: Segments, labels: readonly Label[]): number[] {
  const sizes = blocks.map(({ words }) => (words + 1) ** 0.8);
  const total = sizes.reduce((a, b) => a + b, 0);
  const main = sizes.reduce((sum, size, i) => sum + size * labels[i]!.value, 0);
  const scale = 100 / (0.5 * total + 0.5 * Math.max(main, 0.05 * total));
  return sizes.map((size, i) => size * labels[i]!.sure * scale);
}

/** The forest learns from word scores of lexicons that saw no page of the site, as in production. */
export function learn(
  items: readonly Item[],
  foldOf: (item: Item) => number,
  options: BoostOptions,
): Trained {
  const from = items.filter(({ teaches }) => teaches);
  const rows = new Map<Item, Float32Array>();
  for (const fold of new Set(from.map(foldOf))) {
    const lexicon = learnWords(from.filter((item) => foldOf(item) !== fold));
    for (const item of from) if (foldOf(item) === fold) rows.set(item, rowsOf(item, lexicon));
  }
  return { lexicon: learnWords(from), forest: boost(table(from, rows), options) };
}

export function scores(item: Item, { lexicon, forest }: Trained): Float32Array {
  return new Forest(forest).predict(rowsOf(item, lexicon), item.labels.length);
}

/** Cached: the same pages produce the same lexicon, and cross-validation needs each pair of folds twice. */
const lexicons = new Map<string, Lexicon>();

function learnWords(from: readonly Item[]): Lexicon {
  const key = from.map(({ sample }) => sample.id).join(' ');
  const known = lexicons.get(key);
  if (known) return known;
  const lexicon = newLexicon(from);
  lexicons.set(key, lexicon);
  return lexicon;
}

function newLexicon(from: readonly Item[]): Lexicon {
  const rows: WordRow[] = from.flatMap((item) =>
    item.tokens.map((tokens, i) => ({
      tokens,
      label: item.labels[i]!.value,
      weight: Math.min(1, item.weights[i]!),
    })),
  );
  return vocabulary.learn(rows, new Set(from.map(({ sample }) => sample.site)));
}

function rowsOf({ segments, described }: Item, lexicon: Lexicon): Float32Array {
  for (const { ancestor } of segments.blocks) {
    for (let at: Ancestor | undefined = ancestor; at; at = at.parent) {
      delete at.near;
      delete at.far;
    }
  }
  return withLexicon(described, lexicon).slice();
}

function table(from: readonly Item[], rows: ReadonlyMap<Item, Float32Array>): Rows {
  const columns = featureNames.length;
  const count = from.reduce((sum, { labels }) => sum + labels.length, 0);
  const values = new Float32Array(count * columns);
  const labels = new Float32Array(count);
  const weights = new Float32Array(count);
  let at = 0;
  for (const item of from) {
    values.set(rows.get(item)!, at * columns);
    item.labels.forEach((label, i) => {
      labels[at + i] = label.value;
      weights[at + i] = item.weights[i]!;
    });
    at += item.labels.length;
  }
  return { values, columns, labels, weights };
}
