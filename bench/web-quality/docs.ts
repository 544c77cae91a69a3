// No silent loss: real documentation is served on loopback and read like any page, and its markdown
// is compared with each page's own main container. Usage: node bench/web-quality/docs.ts
//   [--install] [--pages 400] [--site linux] [--worst 10]
// (--install fetches Debian packages with apt; without it, sites that are not installed are MISSING)
import { execFileSync } from 'node:child_process';
import { createReadStream, existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readPage } from '../../src/kinds/web/read/page.ts';
import { measurePage, type PageMeasure } from './docs-measure.ts';
import { docsSites, type DocsSite } from './docs-sites.ts';

const bars = { words: 0.985, headings: 0.98, pres: 0.995, cells: 1, links: 0.98, page: 0.8 };
/** Shorter pages are not judged individually, because one word is a large share of them. */
const minPageWords = 20;

const { values: options } = parseArgs({
  options: {
    install: { type: 'boolean', default: false },
    pages: { type: 'string', default: '400' },
    site: { type: 'string' },
    worst: { type: 'string', default: '0' },
  },
});
const wanted = docsSites.filter(({ name }) => (options.site ?? name) === name);
if (options.install) {
  const packages = wanted.map((site) => site.package);
  const flags = ['install', '-y', '--no-install-recommends'];
  execFileSync('apt-get', [...flags, ...packages], { stdio: 'inherit' });
}
const misses: string[] = [];
console.log(
  '| site | pages | words | headings | pre | cells | index links | pages below 0.8 | ms |',
);
console.log('|---|---|---|---|---|---|---|---|---|');
for (const site of wanted) {
  if (existsSync(site.root)) await measureSite(site);
  else {
    console.log(`| ${site.name} | MISSING (${site.package}; --install) |`);
    misses.push(`${site.name} is MISSING`);
  }
}
console.log(misses.length === 0 ? 'every bar holds' : misses.join('\n'));
process.exit(misses.length === 0 ? 0 : 1);

interface Read extends PageMeasure {
  path: string;
  omitted: boolean;
}

async function measureSite(site: DocsSite): Promise<void> {
  const paths = evenly(htmlFiles(site.root), Number(options.pages));
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    response.setHeader('connection', 'close');
    createReadStream(join(site.root, decodeURIComponent(request.url!)))
      .on('error', () => response.writeHead(404).end())
      .pipe(response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const pages: Read[] = [];
  let ms = 0;
  for (const path of paths) {
    const url = base + path.split('/').map(encodeURIComponent).join('/');
    const body = await (await fetch(url)).text();
    const start = performance.now();
    const page = await readPage(body, { url, contentType: 'text/html', formats: ['markdown'] });
    ms += performance.now() - start;
    const measured = measurePage(body, url, page.markdown ?? '', site);
    if (measured) pages.push({ ...measured, path, omitted: page.omitted !== undefined });
  }
  server.closeAllConnections();
  server.close();
  report(site.name, pages, ms / paths.length);
}

function report(name: string, pages: readonly Read[], ms: number): void {
  const share = (all: keyof PageMeasure, kept: keyof PageMeasure): number => {
    const sum = (field: keyof PageMeasure) => pages.reduce((n, one) => n + Number(one[field]), 0);
    return sum(all) === 0 ? 1 : sum(kept) / sum(all);
  };
  const shares = {
    words: share('words', 'wordsKept'),
    headings: share('headings', 'headingsKept'),
    pres: share('pres', 'presKept'),
    cells: share('cells', 'cellsKept'),
    links: share('links', 'linksKept'),
  };
  const low = pages.filter((one) => one.words >= minPageWords && recall(one) < bars.page);
  const silent = low.filter(({ omitted }) => !omitted);
  const cells = Object.values(shares).map((value) => value.toFixed(4));
  console.log(
    `| ${[name, pages.length, ...cells, `${low.length} (${silent.length} silent)`, ms.toFixed(0)].join(' | ')} |`,
  );
  for (const [field, value] of Object.entries(shares)) {
    const bar = bars[field as keyof typeof shares];
    if (value < bar) misses.push(`${name}: ${field} ${value.toFixed(4)} is below ${bar}`);
  }
  if (silent.length > 0) misses.push(`${name}: ${silent.length} pages lose text silently`);
  const worst = pages.toSorted((a, b) => losses(b) - losses(a)).slice(0, Number(options.worst));
  for (const page of worst) {
    const { path, words, missing } = page;
    console.log(`  ${path}: ${recall(page).toFixed(3)} of ${words} words; ${missing.join(' | ')}`);
  }
}

function recall({ words, wordsKept }: PageMeasure): number {
  return words === 0 ? 1 : wordsKept / words;
}

/** How much a page lost, for the list of the worst pages. */
function losses(one: PageMeasure): number {
  const parts = one.headings - one.headingsKept + one.pres - one.presKept;
  const small = one.cells - one.cellsKept + one.links - one.linksKept;
  return one.words - one.wordsKept + 20 * parts + 5 * small;
}

function htmlFiles(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, encoding: 'utf8' });
  return entries.filter((path) => path.endsWith('.html')).toSorted();
}

function evenly(list: readonly string[], count: number): string[] {
  const step = Math.max(1, list.length / count);
  return Array.from(
    { length: Math.min(count, list.length) },
    (_, i) => list[Math.floor(i * step)]!,
  );
}
