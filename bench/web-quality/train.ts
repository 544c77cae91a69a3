// Trains src/kinds/web/main-content/model.json from the labelled pages and reports its quality on unseen
// sites: every number printed as "held out" comes from models that saw no page of that site in any
// stage, and from the complete reader, including its choice of containers.
// Usage: node bench/web-quality/train.ts [--check | --quick] [--partings 3] [--trees 640] [--depth 5]
// (--check prints the held-out table and writes nothing, --quick writes without measuring)
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { selectMainContent } from '../../src/kinds/web/main-content/main-content.ts';
import type { ModelTable } from '../../src/kinds/web/main-content/model.ts';
import { embeddedText } from '../../src/kinds/web/read/page.ts';
import { dataPaths, loadSamples, types } from './data.ts';
import type { BoostOptions } from './boost.ts';
import { boostDefaults, learn, newItem, scores, type Item, type Trained } from './learn.ts';
import { mean, wordScore } from './score.ts';

const folds = 5;
const { values: flags } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    /** Sites are split into folds in several ways, because one split alone is off by some thousandths. */
    partings: { type: 'string', default: '1' },
    trees: { type: 'string' },
    depth: { type: 'string' },
    rate: { type: 'string' },
    lambda: { type: 'string' },
    minLeaf: { type: 'string' },
    rowShare: { type: 'string' },
    columnShare: { type: 'string' },
  },
});
const { check, quick, partings: partingsText, ...tuned } = flags;
const partings = Number(partingsText);
const options: BoostOptions = {
  ...boostDefaults,
  ...Object.fromEntries(Object.entries(tuned).map(([name, text]) => [name, Number(text)])),
};

const samples = loadSamples();
if (!samples) {
  console.log(`MISSING: the labelled pages (${dataPaths().join(', ')}); set ERRAND_BENCH_DATA`);
  process.exit(1);
}
const items = samples.map(newItem);
const taught = items.filter(({ teaches }) => teaches).length;
const blocks = items.reduce((sum, { labels }) => sum + labels.length, 0);
console.log(`${items.length} pages (${taught} to learn from), ${blocks} blocks`);
if (!quick) {
  const results = Array.from({ length: partings }, (_, parting) => heldOut(parting));
  report(items.map((_, i) => mean(results.map((result) => result[i]!))));
}
if (!check) {
  const path = join(import.meta.dirname, '../../src/kinds/web/main-content/model.json');
  const text = `${JSON.stringify(written(learn(items, parted(0), options)))}\n`;
  writeFileSync(path, text);
  console.log(`model.json: ${Math.round(text.length / 1000)} kB`);
}

/** The fold of an item. Pages of a site are always in the same fold. */
function parted(parting: number): (item: Item) => number {
  const key = (site: string) => hash(parting === 0 ? site : site + parting);
  const sites = [...new Set(items.map(({ sample }) => sample.site))];
  sites.sort((a, b) => key(a) - key(b));
  const foldOf = new Map(sites.map((site, i) => [site, i % folds]));
  return ({ sample }) => foldOf.get(sample.site)!;
}

function hash(text: string): number {
  let value = 7;
  for (const char of text) value = (value * 31 + char.charCodeAt(0)) >>> 0;
  return Math.imul(value, 2654435761) >>> 0;
}

/** F1 of each item by a model that saw no page of its site. */
function heldOut(parting: number): number[] {
  const foldOf = parted(parting);
  const result = items.map(() => 0);
  for (let fold = 0; fold < folds; fold++) {
    const trained = learn(
      items.filter((item) => foldOf(item) !== fold),
      foldOf,
      options,
    );
    items.forEach((item, i) => {
      if (foldOf(item) === fold) result[i] = itemScore(item, trained);
    });
  }
  console.log(`parting ${parting + 1} of ${partings}: ${mean(result).toFixed(4)}`);
  return result;
}

function itemScore(item: Item, trained: Trained): number {
  const { chosen } = selectMainContent(item.segments, item.signals, () => scores(item, trained));
  const text = embeddedText(item.root, chosen)?.chosen ?? chosen;
  return wordScore(text.map((block) => block.text).join('\n'), item.sample.truth).f1;
}

function report(results: readonly number[]): void {
  const of = (type: string) => mean(results.filter((_, i) => items[i]!.sample.type === type));
  const even = mean(types.map(of));
  console.log(`held out: mean ${mean(results).toFixed(4)}, of the types ${even.toFixed(4)}`);
  for (const type of types) console.log(`  ${type.padEnd(14)} ${of(type).toFixed(3)}`);
}

function written({ lexicon, forest }: Trained): ModelTable {
  const line = (weights: ReadonlyMap<string, number>) =>
    [...weights].map(([word, weight]) => `${word}=${Math.round(weight * 100)}`).join(';');
  return {
    lexicon: { near: line(lexicon.near), far: line(lexicon.far), text: line(lexicon.text) },
    forest,
  };
}
