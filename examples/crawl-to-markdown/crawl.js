// Crawls a site and writes every page to a folder as a markdown file.
// Usage: node crawl.js FOLDER [URL]; without a URL it crawls the small site in site/.
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { serveSite } from './serve-site.js';

const [folder, url] = process.argv.slice(2);
if (folder === undefined) throw new Error('Usage: node crawl.js FOLDER [URL]');

const { id, stopReason } = url ? await errand('crawl', url, '--wait') : await crawlLocalSite();
await mkdir(folder, { recursive: true });
const files = [];
for await (const { url: pageUrl, markdown } of pagesOf(id)) {
  const file = fileName(pageUrl);
  await writeFile(join(folder, file), `${markdown}\n`);
  files.push(file);
}
console.log(`${files.length} pages (${stopReason}):`, files.sort().join(' '));
await errand('rm', id);

/** Runs the command line and returns its JSON. */
async function errand(...args) {
  const bin = join(import.meta.dirname, '../../bin/errand.js');
  const { stdout } = await promisify(execFile)(process.execPath, [bin, ...args, '--json']);
  return JSON.parse(stdout);
}

/** Crawls do not reach private addresses. --allow-private permits this host for this one job. */
async function crawlLocalSite() {
  const site = await serveSite();
  try {
    return await errand('crawl', site.url, '--wait', '--allow-private');
  } finally {
    site.close();
  }
}

/** A response holds as many pages as fit. `nextCursor` continues after the last one. */
async function* pagesOf(id) {
  for (let cursor = []; cursor;) {
    const part = await errand('pages', id, '--fields', 'markdown', ...cursor);
    for (const page of part.pages) yield { url: page.url, markdown: await wholeText(id, page) };
    cursor = part.nextCursor && ['--cursor', part.nextCursor];
  }
}

/** A page that does not fit into one response continues at `nextOffset`. */
async function wholeText(id, { url: pageUrl, markdown, nextOffset }) {
  if (nextOffset === undefined) return markdown;
  const next = ['--url', pageUrl, '--offset', String(nextOffset)];
  const { pages } = await errand('pages', id, '--fields', 'markdown', ...next);
  return markdown + (await wholeText(id, pages[0]));
}

function fileName(pageUrl) {
  const { pathname, search } = new URL(pageUrl);
  const name = (pathname + search).replace(/\.html?$/, '').replaceAll(/[^\w.-]+/g, '-');
  return `${name.replace(/^-/, '').replace(/-$/, '') || 'index'}.md`;
}
