// Main-content quality: word F1 per page type, ours compared with Readability and defuddle on the
// same pages in the same run. Usage: node bench/web-quality/index.ts   (ERRAND_BENCH_DATA: folder of
// the archives). Our model was trained on these pages; `train.ts --check` prints the figures for
// unseen sites.
import { readPage } from '../../src/kinds/web/read/page.ts';
import { dataPaths, loadSamples, types, type Sample } from './data.ts';
import { peers, type Reader } from './peers.ts';
import { mean, wordScore } from './score.ts';

interface Result {
  f1: number;
  ms: number;
  type: string;
  /** Share of the must-not snippets that were kept. */
  kept: number;
}

const bars = { mean: 0.85, type: 0.6, meanMs: 150, pageMs: 2000, typesAhead: 5 };

const ours: Reader = {
  name: 'Errand',
  read: async (html, url) => {
    const page = await readPage(html, {
      url,
      contentType: 'text/html',
      formats: ['markdown', 'text'],
    });
    return page.text ?? '';
  },
};

const samples = loadSamples();
if (!samples) {
  console.log(`MISSING: the labelled pages (${dataPaths().join(', ')}); set ERRAND_BENCH_DATA`);
  process.exit(1);
}
const readers = [ours, ...(await peers())];
const results = new Map<string, Result[] | undefined>();
// The peers print their parse errors. A page they cannot read counts as empty.
console.error = () => {};
for (const reader of readers) results.set(reader.name, await measure(reader, samples));
console.log(table(results));
const misses = judge(results);
console.log(misses.length === 0 ? 'every bar holds' : misses.join('\n'));
process.exit(misses.length === 0 ? 0 : 1);

async function measure({ read }: Reader, pages: readonly Sample[]): Promise<Result[] | undefined> {
  if (!read) return undefined;
  const list: Result[] = [];
  for (const { html, url, truth, type, mustNot } of pages) {
    const address = URL.canParse(url) ? url : 'https://example.com/';
    const start = performance.now();
    const text = await read(html, address).catch(() => '');
    const ms = performance.now() - start;
    const lower = text.toLowerCase();
    const kept = mustNot.filter((snippet) => lower.includes(snippet.toLowerCase())).length;
    list.push({
      f1: wordScore(text, truth).f1,
      ms,
      type,
      kept: kept / Math.max(mustNot.length, 1),
    });
  }
  return list;
}

function typeMean(list: readonly Result[], type: string): number {
  return mean(list.filter((result) => result.type === type).map(({ f1 }) => f1));
}

function table(all: ReadonlyMap<string, Result[] | undefined>): string {
  const head = ['reader', 'mean', ...types, 'ms', 'ms max', 'must-not kept'];
  const lines = [...all].map(([name, list]) => {
    if (!list) return [name, 'MISSING'];
    const ms = list.map((result) => result.ms);
    return [
      name,
      mean(list.map(({ f1 }) => f1)).toFixed(3),
      ...types.map((type) => typeMean(list, type).toFixed(3)),
      mean(ms).toFixed(0),
      Math.max(...ms).toFixed(0),
      `${(100 * mean(list.map(({ kept }) => kept))).toFixed(0)} %`,
    ];
  });
  const rows = [head, head.map(() => '---'), ...lines];
  return rows.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function judge(all: ReadonlyMap<string, Result[] | undefined>): string[] {
  const own = all.get(ours.name)!;
  const misses: string[] = [];
  const total = mean(own.map(({ f1 }) => f1));
  if (total < bars.mean) misses.push(`mean F1 ${total.toFixed(3)} is below ${bars.mean}`);
  for (const type of types) {
    if (typeMean(own, type) < bars.type) misses.push(`${type} is below ${bars.type}`);
  }
  const ms = own.map((result) => result.ms);
  if (mean(ms) > bars.meanMs) misses.push(`mean time is over ${bars.meanMs} ms`);
  if (Math.max(...ms) > bars.pageMs) misses.push(`a page took over ${bars.pageMs} ms`);
  for (const [name, list] of all) {
    if (name === ours.name) continue;
    if (!list) {
      misses.push(`${name} is MISSING`);
      continue;
    }
    const ahead = types.filter((type) => typeMean(own, type) > typeMean(list, type)).length;
    if (total <= mean(list.map(({ f1 }) => f1))) misses.push(`not ahead of ${name} on mean`);
    if (ahead < bars.typesAhead) misses.push(`ahead of ${name} on ${ahead} types only`);
  }
  return misses;
}
