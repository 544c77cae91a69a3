// Trains src/kinds/web/content/model.json from the labelled pages, and says honestly how good it
// is on sites it has not seen: every number printed as "held out" comes from models that saw no
// page of that site, in no stage. Usage: node bench/web-quality/train.ts [--check | --quick]
// (--check prints the held-out table and writes nothing, --quick writes without measuring)
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chooseBlocks } from '../../src/kinds/web/content/main.ts';
import type { ModelTable } from '../../src/kinds/web/content/model.ts';
import { embeddedText } from '../../src/kinds/web/content/page.ts';
import { loadSamples, shares, types } from './data.ts';
import { learn, newItem, scores, type Item, type Trained } from './learn.ts';
import { mean, wordScore } from './score.ts';

const folds = 5;
/** Sites are parted into folds in several ways: one way alone is off by some thousandths. */
const partings = 3;

const samples = loadSamples();
if (!samples) {
  console.log('MISSING: the labelled pages (set ERRAND_BENCH_DATA to wcxb-dev-420.tar)');
  process.exit(1);
}
const items = samples.map(newItem);
const taught = items.filter(({ teaches }) => teaches).length;
const blocks = items.reduce((sum, { labels }) => sum + labels.length, 0);
console.log(`${items.length} pages (${taught} to learn from), ${blocks} blocks`);
if (!process.argv.includes('--quick')) {
  const results = Array.from({ length: partings }, (_, parting) => heldOut(parting));
  report(items.map((_, i) => mean(results.map((result) => result[i]!))));
}
if (!process.argv.includes('--check')) {
  const path = join(import.meta.dirname, '../../src/kinds/web/content/model.json');
  const text = `${JSON.stringify(written(learn(items, parted(0))))}\n`;
  writeFileSync(path, text);
  console.log(`model.json: ${Math.round(text.length / 1000)} kB`);
}

/** Which fold an item is in: pages of a site always in the same. */
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
    );
    items.forEach((item, i) => {
      if (foldOf(item) === fold) result[i] = itemScore(item, trained);
    });
  }
  console.log(`parting ${parting + 1} of ${partings}: ${mean(result).toFixed(4)}`);
  return result;
}

function itemScore(item: Item, trained: Trained): number {
  const chosen = chooseBlocks(item.segments.blocks, scores(item, trained));
  const text = embeddedText(item.root, chosen)?.chosen ?? chosen;
  return wordScore(text.map((block) => block.text).join('\n'), item.sample.truth).f1;
}

function report(results: readonly number[]): void {
  const of = (type: string) => mean(results.filter((_, i) => items[i]!.sample.type === type));
  const natural = types.reduce((sum, type) => sum + shares[type] * of(type), 0);
  console.log(
    `held out: mean ${mean(results).toFixed(3)}, by natural shares ${natural.toFixed(3)}`,
  );
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
