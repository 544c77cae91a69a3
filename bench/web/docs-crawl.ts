// Crawls real documentation (linux-doc, served on loopback) with markdown: pages per second, CPU and memory of this version
// and of an older one, in alternating rounds. Usage:
//   node bench/web/docs-crawl.ts --old <folder of a checkout of the older version> [--pages 3000] [--rounds 2]
//     [--root /usr/share/doc/linux-doc-6.1/html]
// On a loaded machine, compare the CPU time per page, not the rate.
import { createReadStream, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, normalize } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { scratchFolder } from '../harness.ts';
import { peakMb, startOurs } from './kit.ts';

const bars = { ratio: 1.5, peakMb: 400, afterMb: 200 };
const { values: options } = parseArgs({
  options: {
    old: { type: 'string' },
    pages: { type: 'string', default: '3000' },
    rounds: { type: 'string', default: '2' },
    root: { type: 'string', default: '/usr/share/doc/linux-doc-6.1/html' },
  },
});
const pages = Number(options.pages);

interface Figures {
  pages: number;
  seconds: number;
  cpuMs: number;
  peakMb: number;
  afterMb: number;
}

const site = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url!, 'http://x').pathname));
  const type = path.endsWith('.html') ? 'text/html; charset=utf-8' : 'application/octet-stream';
  createReadStream(join(options.root, path))
    .on('error', () => response.writeHead(404).end())
    .on('open', () => response.writeHead(200, { 'content-type': type }))
    .pipe(response);
});
await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/index.html`;

async function crawl(name: string, checkout: string | undefined, round: number): Promise<Figures> {
  const server = await startOurs(join(scratchFolder(), `${name}-${round}`), checkout);
  const formats = ['markdown', 'metadata'];
  const input = { url, maxPages: pages, sitemap: 'skip', concurrency: 20, formats };
  const begin = performance.now();
  const cpuBefore = cpuMs(server.pid);
  const job = await server.post<{ jobId?: string; id?: string }>('/api/web/crawls', input);
  let view: { status: string; result?: { pages: number } } = { status: 'queued' };
  while (view.status === 'queued' || view.status === 'running') {
    await wait(500);
    view = await server.get(`/api/jobs/${job.jobId ?? job.id}`);
  }
  const seconds = (performance.now() - begin) / 1000;
  const used = cpuMs(server.pid) - cpuBefore;
  const peak = peakMb(server.pid);
  await wait(60_000);
  const afterMb = rssMb(server.pid);
  await server.kill();
  const read = view.result?.pages ?? 0;
  console.log(
    `${name}: ${read} pages, ${(read / seconds).toFixed(1)}/s, ${(used / read).toFixed(1)} ms of CPU per page, peak ${peak.toFixed(0)} MB, after a minute ${afterMb.toFixed(0)} MB`,
  );
  return { pages: read, seconds, cpuMs: used / read, peakMb: peak, afterMb };
}

/** User and system time of a process with all its threads. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function rssMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}

const ratios: { rate: number; cpu: number }[] = [];
let last: Figures | undefined;
for (let round = 0; round < Number(options.rounds); round++) {
  last = await crawl('this version', undefined, round);
  if (options.old === undefined) continue;
  const old = await crawl('older version', options.old, round);
  const rate = last.pages / last.seconds / (old.pages / old.seconds);
  ratios.push({ rate, cpu: old.cpuMs / last.cpuMs });
}
const median = (list: number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0;
if (ratios.length > 0)
  verdict(
    `rate ratio ${median(ratios.map(({ rate }) => rate)).toFixed(2)}, CPU ratio ${median(ratios.map(({ cpu }) => cpu)).toFixed(2)} (bar ≥ ${bars.ratio})`,
    median(ratios.map(({ rate }) => rate)) >= bars.ratio,
  );
else verdict('rate ratio: MISSING (--old)', false);
verdict(`peak ${last!.peakMb.toFixed(0)} MB (bar ≤ ${bars.peakMb})`, last!.peakMb <= bars.peakMb);
verdict(
  `after a minute ${last!.afterMb.toFixed(0)} MB (bar ≤ ${bars.afterMb})`,
  last!.afterMb <= bars.afterMb,
);
site.closeAllConnections();
site.close();
process.exit();

function verdict(text: string, isMet: boolean): void {
  if (!isMet) process.exitCode = 1;
  console.log(`${text} ${isMet ? 'ok' : 'BELOW'}`);
}
