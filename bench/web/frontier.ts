// The frontier with 1,000,000 waiting URLs against 1,000: the cost of "next URLs of a host" and of a batch of results, and
// the memory of the process.
import { join } from 'node:path';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { accessMigrations } from '../../src/access/keys.ts';
import { webMigrations } from '../../src/kinds/web/migrations.ts';
import { addQueued, insertUrl, updateUrl } from '../../src/kinds/web/store/crawl-steps.ts';
import { WebStore } from '../../src/kinds/web/store/crawls.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { median, scratchFolder } from '../harness.ts';

const large = Number(process.env.BENCH_URLS ?? 1_000_000);
const small = 1000;
const rounds = 200;
const batchRows = 5000;
const hosts = 20;

async function measure(urls: number): Promise<{ nextUs: number; settleUs: number; rssMb: number }> {
  const store = new SqliteStore(join(scratchFolder(), 'bench.sqlite'));
  await store.migrate([...jobMigrations, ...accessMigrations, ...webMigrations]);
  const web = new WebStore(store);
  const { crawl } = await web.open('job_bench', 'me', 0);
  await web.takeOver(crawl, 'token');
  for (let from = 1; from <= urls; from += batchRows) {
    const rows = Array.from({ length: Math.min(batchRows, urls - from + 1) }, (_, i) => from + i);
    await web.commit(
      crawl,
      'token',
      rows.map((seq) =>
        insertUrl(crawl, {
          seq,
          key: `key-of-address-${seq}`,
          url: `https://host-${seq % hosts}.example/some/path/${seq}`,
          host: `host-${seq % hosts}.example`,
          depth: Math.ceil(Math.log10(seq + 1)),
          parent: Math.ceil(seq / 10),
          via: 'link',
          outcome: 'queued',
        }),
      ),
    );
  }
  for (let i = 0; i < hosts; i++)
    await web.commit(crawl, 'token', [
      addQueued(crawl, `host-${i}.example`, Math.floor(urls / hosts)),
    ]);
  const rssBefore = process.memoryUsage().rss;
  const next: number[] = [];
  const settle: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const host = `host-${round % hosts}.example`;
    let begin = performance.now();
    const rows = await web.next(crawl, host, 1, 4);
    next.push((performance.now() - begin) * 1000);
    begin = performance.now();
    await web.commit(
      crawl,
      'token',
      rows.map(({ seq }) => updateUrl(crawl, { seq, outcome: 'fetched' })),
    );
    settle.push((performance.now() - begin) * 1000);
  }
  const rssMb = (process.memoryUsage().rss - rssBefore) / 2 ** 20;
  await store.close();
  return { nextUs: median(next), settleUs: median(settle), rssMb };
}

await measure(small);
const few = await measure(small);
const many = await measure(large);
const ratio = many.nextUs / few.nextUs;
const met = ratio <= 1.3;
if (!met) process.exitCode = 1;
console.log(
  `next addresses at ${large.toLocaleString('en')} vs ${small.toLocaleString('en')}: ${many.nextUs.toFixed(0)} µs vs ${few.nextUs.toFixed(0)} µs, ratio ${ratio.toFixed(2)} (bar ≤ 1.3×) ${met ? 'ok' : 'BELOW'}`,
);
console.log(
  `results of 4 pages: ${many.settleUs.toFixed(0)} µs vs ${few.settleUs.toFixed(0)} µs; memory while taking: +${many.rssMb.toFixed(0)} MB vs +${few.rssMb.toFixed(0)} MB`,
);
