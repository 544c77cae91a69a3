// The CPU time of reading pages of 4 MB with different structures. CPU time, not elapsed time, so that other load does not
// matter. Usage: node bench/web-quality/large.ts [--mb 4]
import { parseArgs } from 'node:util';
import { readPage } from '../../src/kinds/web/read/page.ts';

const bars = { cpuMs: 2000 };
const { values: options } = parseArgs({ options: { mb: { type: 'string', default: '4' } } });
const bytes = Number(options.mb) * 1024 * 1024;

const words =
  'the harbour opens early and the ferry leaves for the islands with mail and bread'.split(' ');
const sentence = (n: number): string =>
  `${Array.from({ length: 14 }, (_, i) => words[(n * 7 + i * 3) % words.length]).join(' ')}, number ${n}.`;

const shapes: Record<string, (n: number) => string> = {
  paragraphs: (n) => `<p>${sentence(n)} ${sentence(n + 1)} ${sentence(n + 2)}</p>\n`,
  'tables of 50 rows': (n) =>
    `${n % 50 === 0 ? '</table><table>' : ''}<tr><td>${n}</td><td>${sentence(n)}</td><td><a href="/r/${n}">Row ${n}</a></td></tr>\n`,
  'list of links': (n) => `<li class="item"><a href="/l/${n}">${sentence(n)}</a></li>\n`,
  cards: (n) =>
    `<div class="card"><div class="body"><h3>Card ${n}</h3><p>${sentence(n)}</p><span class="price">$${n}.00</span></div></div>\n`,
  code: (n) =>
    `<h2 id="s${n}">Section ${n}</h2><pre><code class="language-js">const value${n} = read(${n});\n${'  step();\n'.repeat(20)}</code></pre>\n`,
};

let isMet = true;
await readPage(page(shapes.paragraphs!, 200_000), {
  url: 'https://example.com/',
  contentType: 'text/html',
});
for (const [name, shape] of Object.entries(shapes)) {
  const html = page(shape, bytes);
  const before = process.cpuUsage();
  const { markdown = '' } = await readPage(html, {
    url: 'https://example.com/',
    contentType: 'text/html',
    formats: ['markdown', 'metadata'],
  });
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000;
  if (ms > bars.cpuMs) isMet = false;
  console.log(
    `${name}: ${(html.length / 1024 / 1024).toFixed(1)} MB, ${ms.toFixed(0)} ms of CPU (bar ≤ ${bars.cpuMs}), ${markdown.length} characters of markdown ${ms <= bars.cpuMs ? 'ok' : 'BELOW'}`,
  );
}
process.exit(isMet ? 0 : 1);

function page(shape: (n: number) => string, length: number): string {
  const parts = [
    '<!doctype html><html><head><title>Large</title></head><body><main><h1>Large</h1>',
  ];
  for (let n = 0, size = 0; size < length; n++) {
    const part = shape(n);
    parts.push(part);
    size += part.length;
  }
  return `${parts.join('')}</main></body></html>`;
}
