// Trains src/kinds/web/content/model.json from the labelled pages, and says honestly how good it
// is on sites it has not seen: every number printed as "held out" comes from models that saw no
// page of that site, in no stage. Usage: node bench/web-quality/train.ts [--check] (--check
// prints the held-out table and writes nothing)
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { segment, type Place, type Segments } from '../../src/kinds/web/content/blocks.ts';
import { parseHtml } from '../../src/kinds/web/content/dom.ts';
import { featureNames, features } from '../../src/kinds/web/content/features.ts';
import { Visibility } from '../../src/kinds/web/content/hidden.ts';
import type { Lexicon } from '../../src/kinds/web/content/lexicon.ts';
import { chooseBlocks } from '../../src/kinds/web/content/main.ts';
import type { ModelTable } from '../../src/kinds/web/content/model.ts';
import { pageSigns, type PageSigns } from '../../src/kinds/web/content/signs.ts';
import { Forest, type ForestTable } from '../../src/kinds/web/content/trees.ts';
import { boost, type BoostOptions, type Rows } from './boost.ts';
import { loadSamples, types, type Sample } from './data.ts';
import { labelBlocks, type Label } from './labels.ts';
import { mean, wordScore } from './score.ts';
import { blockTokens, Vocabulary, type WordRow } from './words.ts';

const folds = 5;
/**
 * Shallow trees, strong pull to zero, large leaves: with 420 pages the danger is to learn them by
 * heart.
 */
const options: BoostOptions = {
  trees: 300,
  depth: 5,
  rate: 0.08,
  lambda: 6,
  leafMin: 2,
  rowShare: 0.35,
  columnShare: 0.2,
  seed: 1,
};

interface Item {
  sample: Sample;
  segments: Segments;
  signs: PageSigns;
  labels: Label[];
  weights: number[];
  tokens: Int32Array[];
  fold: number;
}

const vocabulary = new Vocabulary();
const samples = loadSamples();
if (!samples) {
  console.log('MISSING: the labelled pages (set ERRAND_BENCH_DATA to wcxb-dev-420.tar)');
  process.exit(1);
}
const items = prepare(samples);
console.log(
  `${items.length} pages, ${items.reduce((n, item) => n + item.labels.length, 0)} blocks`,
);
if (!process.argv.includes('--quick')) report('held out', heldOut(items));
if (!process.argv.includes('--check')) {
  const model = train(items);
  const path = join(import.meta.dirname, '../../src/kinds/web/content/model.json');
  writeFileSync(path, `${JSON.stringify(model)}\n`);
  console.log(`model.json: ${Math.round(JSON.stringify(model).length / 1000)} kB`);
}

function prepare(all: readonly Sample[]): Item[] {
  const sites = [...new Set(all.map(({ site }) => site))].sort((a, b) => hash(a) - hash(b));
  const foldOf = new Map(sites.map((site, i) => [site, i % folds]));
  return all.map((sample) => {
    const root = parseHtml(sample.html);
    const segments = segment(root, new Visibility(root));
    const labels = labelBlocks(
      segments.blocks.map(({ text }) => text),
      sample.truth,
    );
    return {
      sample,
      segments,
      signs: pageSigns(root),
      labels,
      weights: blockWeights(segments, labels),
      tokens: segments.blocks.map((block) =>
        Int32Array.from(blockTokens(block), (token) => vocabulary.id(token, sample.site)),
      ),
      fold: foldOf.get(sample.site)!,
    };
  });
}

function hash(text: string): number {
  let value = 7;
  for (const char of text) value = (value * 31 + char.charCodeAt(0)) >>> 0;
  return Math.imul(value, 2654435761) >>> 0;
}

/**
 * A block counts by its words, but pages count alike: half by the page's text, half by its main
 * text.
 */
function blockWeights({ blocks }: Segments, labels: readonly Label[]): number[] {
  const sizes = blocks.map(({ words }) => (words + 1) ** 0.8);
  const total = sizes.reduce((a, b) => a + b, 0);
  const main = sizes.reduce((sum, size, i) => sum + size * labels[i]!.value, 0);
  const scale = 100 / (0.5 * total + 0.5 * Math.max(main, 0.05 * total));
  return sizes.map((size, i) => size * labels[i]!.sure * scale);
}

function learnWords(from: readonly Item[]): Lexicon {
  const rows: WordRow[] = from.flatMap((item) =>
    item.tokens.map((tokens, i) => ({
      tokens,
      label: item.labels[i]!.value,
      weight: Math.min(1, item.weights[i]!),
    })),
  );
  return vocabulary.learn(rows, new Set(from.map(({ sample }) => sample.site)));
}

function rowsOf(item: Item, lexicon: Lexicon): Float32Array {
  for (const { place } of item.segments.blocks) {
    for (let at: Place | undefined = place; at; at = at.parent) {
      delete at.near;
      delete at.far;
    }
  }
  return features(item.segments, item.signs, lexicon);
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

interface Trained {
  lexicon: Lexicon;
  forest: ForestTable;
}

/**
 * The forest learns from word scores of lexicons that did not see the page's fold, as in real
 * use.
 */
function learn(from: readonly Item[]): Trained {
  const rows = new Map<Item, Float32Array>();
  for (const fold of new Set(from.map((item) => item.fold))) {
    const lexicon = learnWords(from.filter((item) => item.fold !== fold));
    for (const item of from) if (item.fold === fold) rows.set(item, rowsOf(item, lexicon));
  }
  return { lexicon: learnWords(from), forest: boost(table(from, rows), options) };
}

function scores(item: Item, { lexicon, forest }: Trained): Float32Array {
  return new Forest(forest).predict(rowsOf(item, lexicon), item.labels.length);
}

function heldOut(all: readonly Item[]): Map<Item, number> {
  const result = new Map<Item, number>();
  for (let fold = 0; fold < folds; fold++) {
    const trained = learn(all.filter((item) => item.fold !== fold));
    for (const item of all) {
      if (item.fold !== fold) continue;
      const chosen = chooseBlocks(item.segments.blocks, scores(item, trained));
      const text = chosen.map((block) => block.text).join('\n');
      result.set(item, wordScore(text, item.sample.truth).f1);
    }
    console.log(`fold ${fold + 1} of ${folds}: ${mean([...result.values()]).toFixed(4)} so far`);
  }
  return result;
}

function report(name: string, results: ReadonlyMap<Item, number>): void {
  const of = (type: string) =>
    mean([...results].filter(([item]) => item.sample.type === type).map(([, f1]) => f1));
  console.log(`${name}: mean ${mean([...results.values()]).toFixed(3)}`);
  for (const type of types) console.log(`  ${type.padEnd(14)} ${of(type).toFixed(3)}`);
}

function train(all: readonly Item[]): ModelTable {
  const { lexicon, forest } = learn(all);
  return {
    lexicon: {
      near: written(lexicon.near),
      far: written(lexicon.far),
      text: written(lexicon.text),
    },
    forest,
  };
}

function written(weights: ReadonlyMap<string, number>): string {
  return [...weights].map(([word, weight]) => `${word}=${Math.round(weight * 100)}`).join(';');
}
