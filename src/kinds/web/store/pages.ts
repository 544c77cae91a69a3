// Stores page content separately from URL rows, and searches it by full text (FTS5 or PostgreSQL). Pages are indexed in
// slices after they are stored, so that a crawl does not wait for indexing.
import { isUtf8 } from 'node:buffer';
import { byName } from '../../../runtime/by-name.ts';
import { decodeJsonOr } from '../../../runtime/json.ts';
import type { Row, Step, Store, Value } from '../../../store/store.ts';
import { ftsQuery, hasTerms, parseQuery, tsQuery, type TextQuery } from '../search/query.ts';
import { toPlainText } from '../search/plain.ts';
import { snippetOf } from '../search/snippet.ts';
import { tsVector } from '../search/vector.ts';
import { wordsOf } from '../search/words.ts';

export interface PageBody {
  seq: number;
  owner: string;
  url: string;
  title?: string | undefined;
  markdown?: string | undefined;
  text?: string | undefined;
  html?: string | undefined;
  raw?: Uint8Array | undefined;
  links?: unknown;
  metadata?: unknown;
  structuredData?: unknown;
  images?: unknown;
  data?: unknown;
  screenshot?: string | undefined;
  diff?: string | undefined;
  at: number;
}

interface TextHit {
  url: string;
  title: string | null;
  snippet: string;
  jobId: string;
  at: number;
}

const jsonFields = {
  links: 'links',
  metadata: 'metadata',
  structuredData: 'structured',
  images: 'images',
  data: 'data',
} as const;
const textFields = {
  markdown: 'markdown',
  text: 'body',
  html: 'html',
  screenshot: 'screenshot',
  diff: 'diff',
} as const;
const columnOf: Record<string, string> = byName({ ...jsonFields, ...textFields, raw: 'raw' });
export const bodyFields = Object.keys(columnOf);

type Found = Omit<TextHit, 'snippet'> & { id: number };

const maxIndexedChars = 200_000;
/** The query fetches this many times more rows, because one URL can have several crawled versions. */
const maxVersions = 4;
const sliceRows = 50;

export class PageStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** The requested fields of some pages of a crawl, by `seq`. */
  async bodies(
    crawl: number,
    seqs: readonly number[],
    fields: readonly string[],
  ): Promise<Map<number, Record<string, unknown>>> {
    const found = new Map<number, Record<string, unknown>>();
    const requested = fields.filter((field) => field in columnOf);
    if (seqs.length === 0) return found;
    const columns = requested.map((field) => `, ${columnOf[field]} AS "${field}"`).join('');
    const rows = await this.store.read(
      `SELECT seq${columns} FROM web_pages
       WHERE crawl = ? AND seq IN (${seqs.map(() => '?').join(', ')})`,
      [crawl, ...seqs],
    );
    for (const { seq, ...row } of rows) found.set(seq as number, decodeRow(row));
    return found;
  }

  /** Searches all pages this owner has crawled, best first. Returns only the newest version of each URL. */
  async search(
    owner: string | undefined,
    text: string,
    { limit, offset = 0 }: { limit: number; offset?: number },
  ): Promise<TextHit[]> {
    const query = parseQuery(text);
    if (!hasTerms(query)) return [];
    await this.indexAll();
    const wanted = offset + limit;
    const found = new Map<string, Found>();
    // Pages with all words first, then pages with some.
    for (const all of query.words.length > 1 ? [true, false] : [true]) {
      for (const row of await this.matching(owner, query, { all, limit: wanted * maxVersions })) {
        const known = found.get(row.url);
        if (!known || row.at > known.at) found.set(row.url, row);
      }
      if (found.size >= wanted) break;
    }
    return this.hits([...found.values()].slice(offset, wanted), query);
  }

  /** Indexes one slice of pages and returns their number. */
  async indexSome(): Promise<number> {
    const rows = await this.store.read<{ id: number; title: string | null; body: string | null }>(
      `SELECT id, title, coalesce(markdown, body, metadata) AS body FROM web_pages
       WHERE indexed = 0 ORDER BY id LIMIT ?`,
      [sliceRows],
    );
    const steps = rows.flatMap((row): Step[] => [
      {
        sql: 'UPDATE web_pages SET indexed = 1 WHERE id = ? AND indexed = 0',
        params: [row.id],
        expect: 1,
      },
      indexStep(this.store.engine, row),
    ]);
    if (steps.length > 0) await this.store.commit(steps);
    return rows.length;
  }

  async forget(crawl: number): Promise<void> {
    const inCrawl = '(SELECT id FROM web_pages WHERE crawl = ?)';
    const id = this.store.engine === 'sqlite' ? 'rowid' : 'id';
    await this.store.commit([
      { sql: `DELETE FROM web_text WHERE ${id} IN ${inCrawl}`, params: [crawl] },
      { sql: 'DELETE FROM web_pages WHERE crawl = ?', params: [crawl] },
    ]);
  }

  private async indexAll(): Promise<void> {
    while ((await this.indexSome()) > 0);
  }

  private matching(
    owner: string | undefined,
    query: TextQuery,
    { all, limit }: { all: boolean; limit: number },
  ): Promise<Found[]> {
    const isSqlite = this.store.engine === 'sqlite';
    const words = isSqlite ? ftsQuery(query, all) : tsQuery(query, all);
    const mine = owner === undefined ? '' : ' AND p.owner = ?';
    const sites = query.sites.flatMap(siteForms);
    const there = sites.length > 0 ? ` AND (${sites.map(() => 'p.url LIKE ?').join(' OR ')})` : '';
    const columns = 'p.id, p.url, p.title, c.job_id AS "jobId", p.at';
    const from = 'JOIN web_crawls c ON c.crawl = p.crawl';
    const narrowed = [...(owner === undefined ? [] : [owner]), ...sites];
    return isSqlite
      ? this.store.read<Found>(
          `SELECT ${columns} FROM web_text JOIN web_pages p ON p.id = web_text.rowid ${from}
           WHERE web_text MATCH ?${mine}${there} ORDER BY bm25(web_text, 4.0, 1.0) LIMIT ?`,
          [words, ...narrowed, limit],
        )
      : this.store.read<Found>(
          `SELECT ${columns} FROM web_text t JOIN web_pages p ON p.id = t.id ${from}
           WHERE t.words @@ ?::tsquery${mine}${there} ORDER BY ts_rank(t.words, ?::tsquery) DESC, p.id LIMIT ?`,
          [words, ...narrowed, words, limit],
        );
  }

  private async hits(rows: readonly Found[], query: TextQuery): Promise<TextHit[]> {
    const ids = rows.map(({ id }) => id);
    const marks = ids.map(() => '?').join(', ');
    const texts = await this.store.read<{ id: number; body: string | null }>(
      `SELECT id, coalesce(markdown, body, metadata) AS body FROM web_pages WHERE id IN (${marks || 'NULL'})`,
      ids,
    );
    const bodyOf = new Map(texts.map(({ id, body }) => [id, body ?? '']));
    return rows.map(({ id, ...row }) => ({
      ...row,
      snippet: snippetOf(toPlainText((bodyOf.get(id) ?? '').slice(0, maxIndexedChars)), query),
    }));
  }
}

export function insertPage(crawl: number, page: PageBody): Step {
  return {
    sql: `INSERT INTO web_pages (crawl, seq, owner, url, title, markdown, body, html, raw, links, metadata, structured,
            images, data, screenshot, diff, indexed, at)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
          ON CONFLICT (crawl, seq) DO NOTHING`,
    params: [
      crawl, page.seq, page.owner, page.url, page.title ?? null, page.markdown ?? null, page.text ?? null,
      page.html ?? null, page.raw ?? null, json(page.links), json(page.metadata), json(page.structuredData),
      json(page.images), json(page.data), page.screenshot ?? null, page.diff ?? null, page.at,
    ], // prettier-ignore
  };
}

/** Copies an unmodified page (304) from the earlier crawl. */
export function copyPage(
  from: { crawl: number; seq: number },
  to: { crawl: number; seq: number; owner: string; at: number },
): Step {
  return {
    sql: `INSERT INTO web_pages (crawl, seq, owner, url, title, markdown, body, html, raw, links, metadata, structured,
            images, data, screenshot, indexed, at)
          SELECT ?, ?, ?, url, title, markdown, body, html, raw, links, metadata, structured, images, data, screenshot, 0, ?
          FROM web_pages WHERE crawl = ? AND seq = ? ON CONFLICT (crawl, seq) DO NOTHING`,
    params: [to.crawl, to.seq, to.owner, to.at, from.crawl, from.seq],
  };
}

export function setPageData(crawl: number, seq: number, data: unknown): Step {
  return {
    sql: 'UPDATE web_pages SET data = ? WHERE crawl = ? AND seq = ?',
    params: [json(data), crawl, seq],
    expect: 1,
  };
}

function indexStep(
  engine: Store['engine'],
  row: { id: number; title: string | null; body: string | null },
): Step {
  const title = wordsOf(row.title ?? '');
  const body = wordsOf(toPlainText((row.body ?? '').slice(0, maxIndexedChars)));
  return engine === 'sqlite'
    ? {
        sql: 'INSERT INTO web_text (rowid, title, body) VALUES (?, ?, ?)',
        params: [row.id, title.join(' '), body.join(' ')],
      }
    : {
        sql: 'INSERT INTO web_text (id, words) VALUES (?, ?::tsvector)',
        params: [row.id, tsVector(title, body)],
      };
}

/** LIKE patterns for a host and its subdomains, with any port. */
function siteForms(host: string): string[] {
  const plain = host.replaceAll(/[%_\\]/g, '');
  return ['http', 'https'].flatMap((scheme) =>
    ['', '%.'].flatMap((below) => ['/', ':'].map((next) => `${scheme}://${below}${plain}${next}%`)),
  );
}

function decodeRow(row: Row): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(row)) {
    if (value === null) continue;
    fields[field] = Object.hasOwn(jsonFields, field)
      ? decodeJsonOr<unknown>(value, null)
      : toValue(value);
  }
  return fields;
}

/** Returns binary content, such as a PDF, as a data URL. */
function toValue(value: Value): unknown {
  if (!(value instanceof Uint8Array)) return value;
  const bytes = Buffer.from(value);
  if (isUtf8(bytes)) return bytes.toString('utf8');
  return `data:application/octet-stream;base64,${bytes.toString('base64')}`;
}

const json = (value: unknown): string | null =>
  value === undefined ? null : JSON.stringify(value);
