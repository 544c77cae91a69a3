// kill -9 of the server halfway through a crawl, then a restart: the same set of pages as an uninterrupted run, and hardly
// more requests.
import { crawlEnd, startOurs, startSite } from './kit.ts';

const pages = Number(process.env.BENCH_PAGES ?? 5000);
const options = (url: string) => ({
  url,
  maxPages: pages * 2,
  sitemap: 'skip',
  concurrency: 20,
  formats: ['links', 'metadata'],
});

async function crawl(killAt: number | undefined): Promise<{ urls: Set<string>; requests: number }> {
  const site = await startSite(pages);
  let server = await startOurs();
  const { id } = await server.post<{ id: string }>('/api/web/crawls', options(site.url));
  if (killAt !== undefined) {
    while ((await site.count()) < killAt) await new Promise((resolve) => setTimeout(resolve, 20));
    await server.kill();
    server = await startOurs(server.home);
  }
  await crawlEnd(server, id);
  const urls = new Set<string>();
  for (let cursor = ''; ;) {
    const query = new URLSearchParams({
      limit: '500',
      maxBytes: '1000000',
      ...(cursor ? { cursor } : {}),
    });
    const page = await server.get<{ pages: { url: string }[]; nextCursor?: string }>(
      `/api/web/crawls/${id}/pages?${query}`,
    );
    for (const { url } of page.pages) urls.add(new URL(url).pathname);
    if (page.nextCursor === undefined) break;
    cursor = page.nextCursor;
  }
  const requests = await site.count();
  await server.kill();
  site.stop();
  return { urls, requests };
}

const whole = await crawl(undefined);
const broken = await crawl(pages / 2);
const missingPages = [...whole.urls].filter((url) => !broken.urls.has(url)).length;
const extraPages = [...broken.urls].filter((url) => !whole.urls.has(url)).length;
const ratio = broken.requests / whole.requests;
const met = missingPages === 0 && extraPages === 0 && ratio <= 1.1;
if (!met) process.exitCode = 1;
console.log(
  `resume after kill -9 at ${pages / 2} of ${pages}: ${broken.urls.size} pages, ${missingPages} missing, ${extraPages} extra, requests ratio ${ratio.toFixed(3)} (bar: same set, ≤ 1.1×) ${met ? 'ok' : 'BELOW'}`,
);
process.exit();
