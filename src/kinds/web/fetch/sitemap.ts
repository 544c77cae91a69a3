// Reads sitemaps: urlset, index, RSS, Atom and plain text, optionally gzipped. Broken XML yields the readable part.
import { promisify } from 'node:util';
import { constants, gunzip } from 'node:zlib';
import { nextTurn } from '../../../runtime/clock.ts';
import { htmlparser2 } from '../../../runtime/packages.ts';
import type { Fetched } from './fetcher.ts';

interface Sitemap {
  urls: { url: string; lastmod?: string }[];
  /** Sitemap files that an index lists. */
  files: string[];
}

const maxSitemapUrls = 50_000;
const maxRedirects = 5;
const maxInflatedBytes = 50 * 1024 * 1024;
/** Parsed in pieces, so that other work can run in between. */
const pieceChars = 32_768;
/** Sitemaps are shallow, and parse time grows with the square of the depth. */
const maxDepth = 200;
const unzip = promisify(gunzip);

/** Fetches a sitemap file and follows redirects. Undefined if the file does not exist. */
export async function fetchSitemap(
  file: string,
  ask: (url: string) => Promise<Fetched>,
): Promise<(Sitemap & { bytes: number }) | undefined> {
  let url = file;
  for (let hop = 0; hop <= maxRedirects; hop++) {
    const { status, headers, body } = await ask(url);
    if (status === 200) return { ...(await readSitemap(body, url)), bytes: body.byteLength };
    if (status === 404 || status === 410) return undefined;
    const next = status >= 300 && status < 400 ? URL.parse(headers.location ?? '', url) : null;
    if (!next) throw new Error(`the server responded with status ${status}`);
    url = next.href;
  }
  throw new Error(`it redirects more than ${maxRedirects} times`);
}

export async function readSitemap(body: Uint8Array, base: string): Promise<Sitemap> {
  const text = new TextDecoder().decode(await gunzipped(body));
  if (/^\uFEFF?\s*</.test(text)) return readXml(text, base);
  const urls = text.split(/\r?\n/, maxSitemapUrls).flatMap((line) => absolute(line, base));
  return { urls: urls.map((url) => ({ url })), files: [] };
}

/** Decompresses gzip. A truncated file yields the readable part. */
async function gunzipped(body: Uint8Array): Promise<Uint8Array> {
  if (body[0] !== 0x1f || body[1] !== 0x8b) return body;
  try {
    const options = { maxOutputLength: maxInflatedBytes, finishFlush: constants.Z_SYNC_FLUSH };
    return await unzip(body, options);
  } catch {
    return new Uint8Array();
  }
}

async function readXml(text: string, base: string): Promise<Sitemap> {
  const found: Sitemap = { urls: [], files: [] };
  let inIndex = false;
  let depth = 0;
  let item: { loc?: string; lastmod?: string } | undefined;
  let gathering: 'loc' | 'lastmod' | undefined;
  let gathered = '';
  const close = () => {
    const { loc, lastmod } = item ?? {};
    item = undefined;
    const url = loc === undefined ? undefined : absolute(loc, base)[0];
    if (url === undefined) return;
    if (inIndex) found.files.push(...(found.files.length < maxSitemapUrls ? [url] : []));
    else if (found.urls.length < maxSitemapUrls) {
      found.urls.push({ url, ...(lastmod === undefined ? {} : { lastmod }) });
    }
  };
  const parser = new (htmlparser2().Parser)(
    {
      onopentag(name, attributes) {
        const tag = local(name);
        depth++;
        if (tag === 'sitemapindex') inIndex = true;
        else if (tag === 'urlset') inIndex = false;
        if (['url', 'sitemap', 'item', 'entry'].includes(tag)) item = {};
        else if (!item) return;
        else if (
          (tag === 'loc' || tag === 'link') &&
          item.loc === undefined &&
          !name.startsWith('image:')
        ) {
          const rel = attributes.rel ?? 'alternate';
          if (attributes.href !== undefined && rel === 'alternate') item.loc = attributes.href;
          else start('loc');
        } else if (['lastmod', 'pubdate', 'updated'].includes(tag)) start('lastmod');
      },
      ontext(data) {
        if (gathering) gathered += data;
      },
      onclosetag(name) {
        const tag = local(name);
        depth--;
        if (gathering && item && (tag === 'loc' || tag === 'link' || gathering === 'lastmod')) {
          const value = gathered.trim();
          if (value !== '') item[gathering] ??= value;
          gathering = undefined;
        }
        if (['url', 'sitemap', 'item', 'entry'].includes(tag)) close();
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  const start = (what: 'loc' | 'lastmod') => {
    gathering = what;
    gathered = '';
  };
  for (let at = 0; at < text.length; at += pieceChars) {
    parser.write(text.slice(at, at + pieceChars));
    if (depth > maxDepth || found.urls.length >= maxSitemapUrls) return found;
    await nextTurn();
  }
  parser.end();
  return found;
}

const local = (name: string): string => name.replace(/^.*:/, '').toLowerCase();

function absolute(text: string, base: string): string[] {
  const trimmed = text.trim();
  if (trimmed === '') return [];
  const url = URL.parse(trimmed, base);
  return url && /^https?:$/.test(url.protocol) ? [url.href] : [];
}
