// Recomputes what a crawl keeps beside its rows: addresses by fate, and how many wait on each host.
import type { Problem, StoreReader } from '../../store/store.ts';

const problemsMax = 50;

export async function checkCrawls(reader: StoreReader): Promise<Problem[]> {
  const counts = await reader.read<Difference>(
    `SELECT u.crawl, u.fate AS name, coalesce(c.n, 0) AS kept, u.n AS counted FROM
       (SELECT crawl, fate, count(*) AS n FROM web_urls WHERE fate <> 'queued' GROUP BY crawl, fate) u
     LEFT JOIN web_counts c ON c.crawl = u.crawl AND c.name = u.fate
     WHERE coalesce(c.n, 0) <> u.n LIMIT ${problemsMax}`,
  );
  const hosts = await reader.read<Difference>(
    `SELECT h.crawl, h.host AS name, h.queued AS kept, coalesce(u.n, 0) AS counted FROM web_hosts h
     LEFT JOIN (SELECT crawl, host, count(*) AS n FROM web_urls WHERE fate = 'queued' GROUP BY crawl, host) u
       ON u.crawl = h.crawl AND u.host = h.host
     WHERE h.queued <> coalesce(u.n, 0) LIMIT ${problemsMax}`,
  );
  return [...counts, ...hosts].map(({ crawl, name, kept, counted }) => ({
    check: 'counters',
    text: `crawl ${crawl}, ${name}: stored ${kept}, counted ${counted}`,
  }));
}

interface Difference {
  crawl: number;
  name: string;
  kept: number | string;
  counted: number | string;
}
