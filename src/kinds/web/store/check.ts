// Recomputes the stored counters of the web kind: crawl URLs by outcome, reason, change and path budget, queue lengths per
// host, and spending per owner.
import type { Problem, StoreReader } from '../../../store/store.ts';
import type { CrawlOptions } from '../crawl/options.ts';
import { PathBudgets } from '../crawl/frontier/path-budgets.ts';

const maxProblems = 50;
const page = 1000;
/** Path budget counters, which are checked separately. */
const byPath = `(name LIKE 'path:%' OR name LIKE 'like:%')`;

export async function checkWeb(reader: StoreReader): Promise<Problem[]> {
  const differences = [
    ...(await outcomes(reader)),
    ...(await hosts(reader)),
    ...(await pathBudgets(reader)),
    ...(await usage(reader)),
  ];
  return differences.map(({ what, name, kept, counted }) => ({
    check: 'counters',
    text: `${what}, ${name}: stored ${kept}, counted ${counted}`,
  }));
}

interface Difference {
  what: string;
  name: string;
  kept: number | string;
  counted: number | string;
}

async function outcomes(reader: StoreReader): Promise<Difference[]> {
  const ended = `FROM web_urls WHERE fate <> 'queued'`;
  const rows = await reader.read<Omit<Difference, 'what'> & { crawl: number }>(
    `SELECT coalesce(u.crawl, c.crawl) AS crawl, coalesce(u.name, c.name) AS name,
       coalesce(c.n, 0) AS kept, coalesce(u.n, 0) AS counted
     FROM (SELECT crawl, fate AS name, count(*) AS n FROM web_urls GROUP BY crawl, fate
       UNION ALL SELECT crawl, fate || ':' || reason, count(*) ${ended} AND reason IS NOT NULL GROUP BY 1, 2
       UNION ALL SELECT crawl, 'change:' || change, count(*) ${ended} AND change IS NOT NULL GROUP BY 1, 2) u
     FULL JOIN (SELECT crawl, name, n FROM web_counts WHERE name <> 'unlisted' AND NOT ${byPath}) c
       ON c.crawl = u.crawl AND c.name = u.name
     WHERE coalesce(c.n, 0) <> coalesce(u.n, 0) LIMIT ${maxProblems}`,
  );
  return rows.map(({ crawl, ...rest }) => ({ what: `crawl ${crawl}`, ...rest }));
}

async function hosts(reader: StoreReader): Promise<Difference[]> {
  const rows = await reader.read<Omit<Difference, 'what'> & { crawl: number }>(
    `SELECT coalesce(u.crawl, h.crawl) AS crawl, coalesce(u.host, h.host) AS name,
       coalesce(h.queued, 0) AS kept, coalesce(u.n, 0) AS counted
     FROM (SELECT crawl, host, count(*) AS n FROM web_urls WHERE fate = 'queued' GROUP BY crawl, host) u
     FULL JOIN web_hosts h ON h.crawl = u.crawl AND h.host = u.host
     WHERE coalesce(h.queued, 0) <> coalesce(u.n, 0) LIMIT ${maxProblems}`,
  );
  return rows.map(({ crawl, ...rest }) => ({ what: `crawl ${crawl}`, ...rest }));
}

/** A page's URL and the crawl options decide which budgets it counts towards. */
async function pathBudgets(reader: StoreReader): Promise<Difference[]> {
  const crawls = await reader.read<{ crawl: number; input: string }>(
    `SELECT c.crawl, j.input FROM web_crawls c JOIN jobs j ON j.id = c.job_id
     WHERE j.input LIKE '%"pathBudgets"%' OR j.input LIKE '%"maxSimilarPages"%'`,
  );
  const found: Difference[] = [];
  for (const { crawl, input } of crawls) {
    const options = JSON.parse(input) as CrawlOptions;
    const counted = await countedPages(reader, crawl, new PathBudgets(options, () => ({})));
    const stored = await reader.read<{ name: string; n: number }>(
      `SELECT name, n FROM web_counts WHERE crawl = ? AND ${byPath}`,
      [crawl],
    );
    const kept = new Map(stored.map(({ name, n }) => [name, n]));
    for (const name of new Set([...kept.keys(), ...counted.keys()])) {
      const pair = { kept: kept.get(name) ?? 0, counted: counted.get(name) ?? 0 };
      if (pair.kept !== pair.counted) found.push({ what: `crawl ${crawl}`, name, ...pair });
    }
  }
  return found.slice(0, maxProblems);
}

async function countedPages(
  reader: StoreReader,
  crawl: number,
  budgets: PathBudgets,
): Promise<Map<string, number>> {
  const counted = new Map<string, number>();
  for (let after = -1; ;) {
    const rows = await reader.read<{ seq: number; url: string }>(
      `SELECT seq, url FROM web_urls WHERE crawl = ? AND seq > ? AND fate IN ('fetched', 'unchanged')
       ORDER BY seq LIMIT ${page}`,
      [crawl, after],
    );
    for (const name of rows.flatMap(({ url }) => budgets.names(url)))
      counted.set(name, (counted.get(name) ?? 0) + 1);
    if (rows.length < page) return counted;
    after = rows.at(-1)!.seq;
  }
}

async function usage(reader: StoreReader): Promise<Difference[]> {
  const found: Difference[] = [];
  for (const column of ['calls', 'credits', 'pages', 'bytes', 'browser_ms']) {
    const rows = await reader.read<Record<'owner' | 'day' | 'action', string> & Difference>(
      `SELECT coalesce(u.owner, c.owner) AS owner, coalesce(u.day, c.day) AS day,
         coalesce(u.action, c.action) AS action, coalesce(u.${column}, 0) AS kept, coalesce(c.n, 0) AS counted
       FROM web_usage u FULL JOIN
         (SELECT owner, day, action, sum(${column}) AS n FROM web_charges GROUP BY owner, day, action) c
         ON c.owner = u.owner AND c.day = u.day AND c.action = u.action
       WHERE coalesce(u.${column}, 0) <> coalesce(c.n, 0) LIMIT ${maxProblems}`,
    );
    for (const { owner, day, action, kept, counted } of rows)
      found.push({ what: `usage of ${owner}`, name: `${day} ${action} ${column}`, kept, counted });
  }
  return found;
}
