// The site of the crawl benchmarks: pages of 20 kB with 80 links each, generated once and served from memory. Prints its
// address. GET /count returns the number of page requests so far.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { paragraphs } from '../../test/fixtures/site/pages.ts';

const pages = Number(process.argv[2] ?? 5000);
const bytes = 20_000;
const linksPerPage = 80;

const bodies = Array.from({ length: pages }, (_, n) => Buffer.from(page(n)));
let count = 0;

const server = createServer((request, response) => {
  const match = /^\/(?:p\/(\d+))?$/.exec(request.url ?? '');
  if (request.url === '/count') return response.end(String(count));
  const body = match ? bodies[Number(match[1] ?? 0)] : undefined;
  if (!body) return response.writeHead(404).end();
  count++;
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    'content-length': body.length,
  });
  response.end(body);
});
server.keepAliveTimeout = 30_000;
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));

function page(n: number): string {
  const links = Array.from({ length: linksPerPage }, (_, i) =>
    i < 3 ? (n * 3 + i + 1) % pages : (n + i * 61) % pages,
  );
  const list = links.map((to) => `<li><a href="/p/${to}">Page number ${to}</a></li>`).join('');
  const head = `<title>Page ${n}</title><meta name="description" content="The page with number ${n}"><meta property="og:title" content="Page ${n}">`;
  const rest = bytes - list.length - 400;
  return `<!doctype html><html lang="en"><head>${head}</head><body><nav><a href="/p/1">First</a></nav><main><article><h1>Page ${n}</h1>${paragraphs(n, rest)}</article></main><aside><ul>${list}</ul></aside></body></html>`;
}
