// Durable crawls of a loopback site with 5,000 pages of 20 kB: pages per second and peak memory of our server, against
// Crawlee with persistence. First links and metadata, then markdown.
import { join } from 'node:path';
import { missing, scratchFolder } from '../harness.ts';
import { crawlEnd, firstLine, peakMb, start, startOurs, startSite } from './kit.ts';

const pages = Number(process.env.BENCH_PAGES ?? 5000);
/** Only one of the two: BENCH_MODE=links or markdown. */
const only = process.env.BENCH_MODE;
const site = await startSite(pages);

interface Figures {
  pages: number;
  ms: number;
  mb: number;
}

async function ours(formats: string[]): Promise<Figures> {
  const server = await startOurs();
  const options = { url: site.url, maxPages: pages * 2, sitemap: 'skip', concurrency: 20, formats };
  const begin = performance.now();
  const { id } = await server.post<{ id: string }>('/api/web/crawls', options);
  const { result } = await crawlEnd(server, id);
  const ms = performance.now() - begin;
  const mb = peakMb(server.pid);
  await server.kill();
  return { pages: result!.pages, ms, mb };
}

async function crawlee(mode: string): Promise<Figures> {
  const folder = join(scratchFolder(), 'storage');
  const child = start(
    [join(import.meta.dirname, 'crawlee.ts'), site.url, String(pages), mode, folder],
    {},
  );
  return JSON.parse(await firstLine(child)) as Figures;
}

for (const [mode, formats] of [
  ['links', ['links', 'metadata']],
  ['markdown', ['markdown', 'metadata']],
] as const) {
  if (only !== undefined && only !== mode) continue;
  const mine = await ours([...formats]);
  const title = `durable crawl, ${mode}, ${pages} pages`;
  try {
    line(title, mine, await crawlee(mode), mode === 'links');
  } catch (error) {
    missing(`${title} vs Crawlee`, { atLeast: 4 }, (error as Error).message);
  }
}
site.stop();
process.exit();

/** Memory has a bar only without markdown. With it, our memory is mostly the threads that parse pages. */
function line(title: string, mine: Figures, peer: Figures, memoryCounts: boolean): void {
  const rate = ({ pages: n, ms }: Figures) => n / (ms / 1000);
  const speed = rate(mine) / rate(peer);
  const memory = mine.mb / peer.mb;
  verdict(
    `${title}: ours ${rate(mine).toFixed(0)}/s (${mine.pages} pages), Crawlee ${rate(peer).toFixed(0)}/s (${peer.pages} pages), ratio ${speed.toFixed(2)} (bar ≥ 4×)`,
    speed >= 4,
  );
  const used = `${title}, peak memory: ours ${mine.mb.toFixed(0)} MB, Crawlee ${peer.mb.toFixed(0)} MB, ratio ${memory.toFixed(2)}`;
  if (memoryCounts) verdict(`${used} (bar ≤ 0.25×)`, memory <= 0.25);
  else console.log(used);
}

function verdict(text: string, met: boolean): void {
  if (!met) process.exitCode = 1;
  console.log(`${text} ${met ? 'ok' : 'BELOW'}`);
}
