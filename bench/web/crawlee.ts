// The peer: Crawlee's CheerioCrawler with persistence, used as documented. With markdown: Readability and turndown on
// every page. Prints one line of JSON: pages, ms, peak memory in MB.
import { importPeer } from '../harness.ts';

type Json = ReturnType<typeof JSON.parse>;

const [url, pagesText, mode, folder] = process.argv.slice(2) as [string, string, string, string];
process.env.CRAWLEE_STORAGE_DIR = folder;
process.env.CRAWLEE_LOG_LEVEL = 'ERROR';
const { CheerioCrawler, Configuration, Dataset }: Json = await importPeer('crawlee');
const toMarkdown = mode === 'markdown' ? await converter() : undefined;
const configuration = new Configuration({
  persistStorage: true,
  storageClientOptions: { localDataDirectory: folder },
});
let pages = 0;
const crawler = new CheerioCrawler(
  {
    maxConcurrency: 20,
    minConcurrency: 20,
    maxRequestsPerCrawl: Number(pagesText) * 3,
    requestHandler: async ({ request, $, body, enqueueLinks }: Json) => {
      pages++;
      const links = $('a[href]')
        .map((_: number, a: Json) => new URL($(a).attr('href'), request.loadedUrl).href)
        .get();
      const title = $('title').text();
      const description = $('meta[name=description]').attr('content');
      await Dataset.pushData({
        url: request.loadedUrl,
        title,
        description,
        links,
        ...(toMarkdown ? { markdown: toMarkdown(String(body)) } : {}),
      });
      await enqueueLinks();
    },
  },
  configuration,
);
const begin = performance.now();
await crawler.run([url]);
console.log(
  JSON.stringify({
    pages,
    ms: performance.now() - begin,
    mb: process.resourceUsage().maxRSS / 1024,
  }),
);
process.exit(0);

async function converter(): Promise<(html: string) => string> {
  const { parseHTML }: Json = await importPeer('linkedom');
  const { Readability }: Json = await importPeer('@mozilla/readability');
  const { default: Turndown }: Json = await importPeer('turndown');
  const turndown = new Turndown();
  return (html) => {
    const { document } = parseHTML(html);
    return turndown.turndown(new Readability(document).parse()?.content ?? '');
  };
}
