// Tables of the web kind. `crawl` is a small number instead of the job id, because every crawl row contains it.
import type { Migration, SearchIndex } from '../../store/store.ts';

const renamedInputs = {
  '"similarPagesMax":': '"maxSimilarPages":',
  '"timeMsMax":': '"maxTimeMs":',
  '"bytesMax":': '"maxBytes":',
  '"creditsMax":': '"maxCredits":',
  '"fetchMax":': '"maxFetch":',
};

export const webMigrations: Migration[] = [
  {
    id: 'web/1',
    statements: ({ int, blob, serial, strict, engine }) => [
      // `runner` is a fencing token: a runner stores its own token first, and its commits apply only while it is current.
      `CREATE TABLE web_crawls (
        crawl ${serial}, job_id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, runner TEXT,
        seq_next ${int} NOT NULL, bytes ${int} NOT NULL, credits ${int} NOT NULL, active_ms ${int} NOT NULL,
        state TEXT NOT NULL, paused ${int} NOT NULL, created_at ${int} NOT NULL
      ) ${strict}`,
      `CREATE TABLE web_urls (
        crawl ${int} NOT NULL, seq ${int} NOT NULL, key TEXT NOT NULL, url TEXT NOT NULL, host TEXT NOT NULL,
        depth ${int} NOT NULL, parent ${int}, via TEXT NOT NULL, fate TEXT NOT NULL, reason TEXT, detail TEXT,
        ready_at ${int} NOT NULL, tries ${int} NOT NULL, hops ${int} NOT NULL, flags ${int} NOT NULL,
        target TEXT, status ${int}, bytes ${int}, type TEXT, title TEXT, etag TEXT, modified TEXT,
        text_hash TEXT, change TEXT, fetched_at ${int}, PRIMARY KEY (crawl, seq)
      ) ${strict}`,
      'CREATE UNIQUE INDEX web_urls_key ON web_urls (crawl, key)',
      // The frontier: a host's next URL is the first index entry of its range, regardless of the number of rows.
      `CREATE INDEX web_urls_queued ON web_urls (crawl, host, ready_at, depth, seq) WHERE fate = 'queued'`,
      `CREATE INDEX web_urls_fate ON web_urls (crawl, fate, seq) WHERE fate <> 'queued'`,
      'CREATE INDEX web_urls_text ON web_urls (crawl, text_hash) WHERE text_hash IS NOT NULL',
      // For an unmodified page (304), the links are those that the earlier crawl found on it.
      'CREATE INDEX web_urls_parent ON web_urls (crawl, parent) WHERE parent IS NOT NULL',
      `CREATE INDEX web_urls_alias ON web_urls (crawl, target) WHERE fate = 'duplicate'`,
      `CREATE TABLE web_hosts (
        crawl ${int} NOT NULL, host TEXT NOT NULL, queued ${int} NOT NULL, ready_at ${int} NOT NULL,
        failures ${int} NOT NULL, rests ${int} NOT NULL, PRIMARY KEY (crawl, host)
      ) ${strict}`,
      'CREATE INDEX web_hosts_ready ON web_hosts (crawl, ready_at) WHERE queued > 0',
      `CREATE TABLE web_counts (
        crawl ${int} NOT NULL, name TEXT NOT NULL, n ${int} NOT NULL, PRIMARY KEY (crawl, name)
      ) ${strict}`,
      `CREATE TABLE web_pages (
        id ${serial}, crawl ${int} NOT NULL, seq ${int} NOT NULL, owner TEXT NOT NULL, url TEXT NOT NULL,
        title TEXT, markdown TEXT, body TEXT, html TEXT, raw ${blob}, links TEXT, metadata TEXT, structured TEXT,
        images TEXT, data TEXT, screenshot TEXT, diff TEXT, indexed ${int} NOT NULL, at ${int} NOT NULL,
        UNIQUE (crawl, seq)
      ) ${strict}`,
      'CREATE INDEX web_pages_unindexed ON web_pages (id) WHERE indexed = 0',
      `CREATE TABLE web_usage (
        owner TEXT NOT NULL, day TEXT NOT NULL, action TEXT NOT NULL, calls ${int} NOT NULL, credits ${int} NOT NULL,
        pages ${int} NOT NULL, bytes ${int} NOT NULL, browser_ms ${int} NOT NULL, PRIMARY KEY (owner, day, action)
      ) ${strict}`,
      ...(engine === 'sqlite'
        ? [
            `CREATE VIRTUAL TABLE web_text USING fts5(title, body, tokenize = 'unicode61 remove_diacritics 2')`,
          ]
        : [
            `CREATE TABLE web_text (id BIGINT PRIMARY KEY, words tsvector NOT NULL, body TEXT NOT NULL)`,
            'CREATE INDEX web_text_words ON web_text USING gin (words)',
          ]),
    ],
  },
  {
    id: 'web/2',
    statements: ({ int, strict }) => [
      `CREATE TABLE web_reads (
        owner TEXT NOT NULL, key TEXT NOT NULL, job_id TEXT NOT NULL, at ${int} NOT NULL, PRIMARY KEY (owner, key)
      ) ${strict}`,
      'CREATE INDEX web_reads_job ON web_reads (job_id)',
    ],
  },
  {
    // Numbers pages in order of arrival, so that a cursor misses none while the crawl runs, although URLs that were found
    // earlier may arrive later.
    id: 'web/3',
    statements: ({ int }) => [
      `ALTER TABLE web_urls ADD COLUMN nth ${int}`,
      `UPDATE web_urls SET nth = ordered.nth FROM (
         SELECT crawl, seq, row_number() OVER (PARTITION BY crawl ORDER BY seq) AS nth
         FROM web_urls WHERE fate IN ('fetched', 'unchanged')
       ) AS ordered WHERE ordered.crawl = web_urls.crawl AND ordered.seq = web_urls.seq`,
      'CREATE UNIQUE INDEX web_urls_nth ON web_urls (crawl, nth) WHERE nth IS NOT NULL',
    ],
  },
  {
    // Steps that a job completed and paid for; credits reserved for running steps; and one row per owner as a lock for
    // concurrent reservations.
    id: 'web/4',
    statements: ({ int, strict }) => [
      `CREATE TABLE web_steps (
        job_id TEXT NOT NULL, n ${int} NOT NULL, key TEXT NOT NULL, trial ${int} NOT NULL, step TEXT NOT NULL, found TEXT,
        PRIMARY KEY (job_id, n)
      ) ${strict}`,
      `CREATE TABLE web_holds (
        job_id TEXT PRIMARY KEY, owner TEXT NOT NULL, credits ${int} NOT NULL, until ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX web_holds_owner ON web_holds (owner)',
      `CREATE TABLE web_budgets (owner TEXT PRIMARY KEY, holds ${int} NOT NULL) ${strict}`,
    ],
  },
  {
    // The index contains the words from `text/words.ts` without a copy of the text. It is rebuilt automatically.
    id: 'web/5',
    statements: ({ engine }) => [
      'DROP TABLE web_text',
      ...(engine === 'sqlite'
        ? [
            `CREATE VIRTUAL TABLE web_text USING fts5(
              title, body, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
            )`,
          ]
        : [
            'CREATE TABLE web_text (id BIGINT PRIMARY KEY, words tsvector NOT NULL)',
            'CREATE INDEX web_text_words ON web_text USING gin (words)',
          ]),
      'UPDATE web_pages SET indexed = 0',
    ],
  },
  {
    // Spending per job, so that usage can be recomputed. Earlier spending and that of deleted jobs has an empty job id.
    id: 'web/6',
    statements: ({ int, strict }) => [
      `CREATE TABLE web_charges (
        job_id TEXT NOT NULL, owner TEXT NOT NULL, day TEXT NOT NULL, action TEXT NOT NULL, calls ${int} NOT NULL,
        credits ${int} NOT NULL, pages ${int} NOT NULL, bytes ${int} NOT NULL, browser_ms ${int} NOT NULL,
        PRIMARY KEY (job_id, owner, day, action)
      ) ${strict}`,
      `INSERT INTO web_charges (job_id, owner, day, action, calls, credits, pages, bytes, browser_ms)
        SELECT '', owner, day, action, calls, credits, pages, bytes, browser_ms FROM web_usage`,
    ],
  },
  {
    // What the stored page text omits (JSON), and the number of invisible words.
    id: 'web/7',
    statements: ({ int }) => [
      'ALTER TABLE web_urls ADD COLUMN omitted TEXT',
      `ALTER TABLE web_urls ADD COLUMN hidden_words ${int}`,
    ],
  },
  {
    // `page_hash` (title and full text) identifies duplicates; `text_hash` (main text) shows whether a page changed.
    id: 'web/8',
    statements: () => [
      'ALTER TABLE web_urls ADD COLUMN page_hash TEXT',
      'DROP INDEX web_urls_text',
      'CREATE INDEX web_urls_page ON web_urls (crawl, page_hash) WHERE page_hash IS NOT NULL',
    ],
  },
  {
    // Renames stored bounds to `max…` and `fates` to `outcomes`, so that jobs of older versions still run and their
    // results have the current shape.
    id: 'web/9',
    statements: () => [
      renameKeys('input', renamedInputs, `kind = 'web'`),
      renameKeys('result', { '"fates":{': '"outcomes":{' }, `kind = 'web' AND action = 'crawl'`),
      `UPDATE attempts SET result = replace(result, '"fates":{', '"outcomes":{')
        WHERE result LIKE '%"fates":{%'
        AND job_id IN (SELECT id FROM jobs WHERE kind = 'web' AND action = 'crawl')`,
    ],
  },
];

/** Renames JSON keys in a text column of `jobs`. */
function renameKeys(column: string, keys: Record<string, string>, where: string): string {
  const renamed = Object.entries(keys).reduce(
    (text, [before, after]) => `replace(${text}, '${before}', '${after}')`,
    column,
  );
  const affected = Object.keys(keys).map((before) => `${column} LIKE '%${before}%'`);
  return `UPDATE jobs SET ${column} = ${renamed} WHERE ${where} AND (${affected.join(' OR ')})`;
}

export const webIndexes: SearchIndex[] = [
  { table: 'web_text', refill: 'UPDATE web_pages SET indexed = 0' },
];
