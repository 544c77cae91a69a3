// Reads documents other than HTML (plain text, JSON, XML, feeds, PDF) into the same Page type.
import { AppError } from '../../../errors.ts';
import { htmlparser2 } from '../../../runtime/packages.ts';
import { countWords } from '../main-content/blocks.ts';
import { decodeBytes } from './charset.ts';
import { hashOf, pageHashOf } from './hash.ts';
import { withoutInvisible } from './dom.ts';
import { readFragment } from './fragment.ts';
import { encodeLink, encodeText, toMarkdown } from '../markdown/literals.ts';
import { toOmitted } from './omitted.ts';
import { readPdf } from './pdf.ts';
import type { Page, PageFormat, PageKind, PageLink, PageOptions } from './types.ts';

const defaultMaxChars = 10_000_000;
const sniffBytes = 1024;

/** Uses the header and checks it against the first bytes, because either can be wrong. */
export function detectKind(body: Uint8Array | string, contentType = ''): PageKind {
  const start = firstChars(body);
  if (start.startsWith('%PDF-')) return 'pdf';
  const type = contentType.split(';')[0]!.trim().toLowerCase();
  if (type === 'text/html' || type === 'application/xhtml+xml') return 'html';
  if (typeof body !== 'string' && isBinary(body)) return 'binary';
  if (type === 'application/rss+xml' || type === 'application/atom+xml') return 'feed';
  if (/[/+]json$/.test(type)) return 'json';
  if (/[/+]xml$/.test(type)) return xmlKind(start);
  if (type.startsWith('text/') && type !== 'text/plain') return 'text';
  if (/^\s*<(?:!doctype html|html|head|body)/i.test(start)) return 'html';
  if (type === 'text/plain') return 'text';
  if (/^\s*<\?xml/i.test(start)) return xmlKind(start);
  if (type === '' && /<[a-z][^>]*>/i.test(start)) return 'html';
  if (type === '' && /^\s*[[{]/.test(start)) return 'json';
  return type === '' || type === 'application/octet-stream' ? 'text' : 'binary';
}

function firstChars(body: Uint8Array | string): string {
  if (typeof body === 'string') return body.slice(0, sniffBytes);
  return Buffer.from(body.buffer, body.byteOffset, Math.min(body.byteLength, sniffBytes)).toString(
    'latin1',
  );
}

function xmlKind(start: string): PageKind {
  if (/<html[\s>]/i.test(start)) return 'html';
  return /<(?:rss|feed|rdf:RDF)[\s>]/i.test(start) ? 'feed' : 'xml';
}

function isBinary(bytes: Uint8Array): boolean {
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff))
    return false;
  const end = Math.min(bytes.length, sniffBytes);
  for (let i = 0; i < end; i++) if (bytes[i] === 0) return true;
  return false;
}

export async function readNonHtml(
  body: Uint8Array | string,
  kind: Exclude<PageKind, 'html'>,
  options: PageOptions,
): Promise<Page> {
  if (kind === 'binary') {
    const type = options.contentType ?? 'unknown type';
    throw new AppError('unsupported', `${options.url} is not text (${type}).`, {
      hint: 'Supported types: HTML, plain text, JSON, XML, feeds and PDF.',
    });
  }
  if (kind === 'pdf') return await pdfPage(body, options);
  const { text, charset } =
    typeof body === 'string'
      ? { text: body, charset: 'utf-8' }
      : decodeBytes(body, options.contentType);
  const maxChars = options.maxChars ?? defaultMaxChars;
  const cut = withoutInvisible(text.slice(0, maxChars));
  const page = kind === 'feed' ? feedPage(cut, options) : plainPage(cut, kind, options);
  if (maxChars >= text.length) return { ...page, charset };
  const whole = page.wordCount + countWords(text.slice(maxChars));
  return { ...page, charset, truncated: true, ...toOmitted(whole, page.wordCount, 'tooLong') };
}

async function pdfPage(body: Uint8Array | string, options: PageOptions): Promise<Page> {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body;
  const pdf = await readPdf(bytes);
  const pages = pdf.pages.map(withoutInvisible);
  const markdown = pages.map((text, i) => `<!-- page ${i + 1} -->\n\n${text}`).join('\n\n');
  const page = withText({ text: pages.join('\n\n'), markdown, title: pdf.title }, 'pdf', options);
  return { ...page, pages: pdf.pages.length };
}

function plainPage(text: string, kind: 'text' | 'json' | 'xml', options: PageOptions): Page {
  const type = options.contentType ?? '';
  if (kind === 'text') {
    const title = /^#\s+(.+)$/m.exec(text.slice(0, 2000))?.[1];
    return withText(
      { text, markdown: /csv/.test(type) ? codeBlock('csv', text) : text, title },
      kind,
      options,
    );
  }
  const formatted = kind === 'json' ? indentedJson(text) : text;
  return withText({ text, markdown: codeBlock(kind, formatted) }, kind, options);
}

function codeBlock(language: string, text: string): string {
  const ticks = '`'.repeat(
    Math.max(3, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length + 1)),
  );
  return `${ticks}${language}\n${text.trimEnd()}\n${ticks}`;
}

function indentedJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 1);
  } catch {
    return text;
  }
}

function feedPage(xml: string, options: PageOptions): Page {
  const feed = htmlparser2().parseFeed(xml, { xmlMode: true });
  if (!feed) return plainPage(xml, 'xml', options);
  const resolve = (href: string) => webAddress(href, options.url);
  const part = (html = '') => readFragment(html, resolve);
  const links: PageLink[] = [];
  const marked: string[] = [];
  const plain: string[] = [];
  const add = (markdown: string, text: string) => {
    if (markdown !== '') marked.push(markdown);
    if (text !== '') plain.push(text);
  };
  const title = part(feed.title).text || undefined;
  if (title !== undefined) add(`# ${toMarkdown(encodeText(title))}`, title);
  const about = part(feed.description);
  add(about.markdown, about.text);
  for (const item of feed.items) {
    const url = item.link === undefined ? undefined : resolve(item.link);
    const name = part(item.title).text || url || 'untitled';
    if (url !== undefined) links.push({ url, text: name, rel: [] });
    const linked = url === undefined ? encodeText(name) : encodeLink(url, encodeText(name));
    const date = dateOf(item.pubDate);
    add(`## ${toMarkdown(linked)}${date}`, `${name}${date}`);
    const { markdown, text } = part(item.description);
    add(markdown, text);
  }
  const page = withText(
    { text: plain.join('\n'), markdown: marked.join('\n\n'), title },
    'feed',
    options,
  );
  return isRequested(options, 'links') ? { ...page, links } : page;
}

function webAddress(href: string, base: string): string | undefined {
  const url = URL.parse(href, base);
  return url && /^(?:https?|mailto):$/.test(url.protocol) ? url.href : undefined;
}

function dateOf(date: Date | undefined): string {
  return date && !Number.isNaN(date.getTime()) ? ` (${date.toISOString().slice(0, 10)})` : '';
}

function withText(
  { text, markdown, title }: { text: string; markdown: string; title?: string | undefined },
  kind: PageKind,
  options: PageOptions,
): Page {
  return {
    url: options.url,
    kind,
    charset: 'utf-8',
    ...(title === undefined ? {} : { title }),
    ...(isRequested(options, 'markdown') ? { markdown } : {}),
    ...(isRequested(options, 'text') ? { text } : {}),
    ...(isRequested(options, 'links') ? { links: [] } : {}),
    ...(isRequested(options, 'metadata')
      ? { metadata: { ...(title === undefined ? {} : { title }), social: {} } }
      : {}),
    robots: { noindex: false, nofollow: false },
    wordCount: countWords(text),
    textHash: hashOf(text),
    pageHash: pageHashOf(title, [text]),
    needsBrowser: false,
  };
}

function isRequested(options: PageOptions, format: PageFormat): boolean {
  return (options.formats ?? ['markdown', 'metadata']).includes(format);
}
