// readPage: bytes of any kind to a Page. Pure: no network, no clock, no state. Time limits are
// the pool's.
import { countWords, segment, type Block, type Segments } from './blocks.ts';
import { decodeBytes } from './charset.ts';
import { renderHtml } from './clean.ts';
import { isElement, isText, parseHtml, walk, type AnyNode, type Document } from './dom.ts';
import { embeddedTexts } from './embedded.ts';
import { hashOf } from './hash.ts';
import { HeadReader } from './head.ts';
import { Visibility } from './hidden.ts';
import { kindOf, readOther } from './documents.ts';
import { readLight } from './light.ts';
import { mainBlocks } from './main.ts';
import { renderMarkdown } from './markdown.ts';
import { Selection } from './selection.ts';
import { onlySelected, select, withoutSelected } from './selectors.ts';
import { pageSigns } from './signs.ts';
import { structuredData } from './structured.ts';
import type { Page, PageFormat, PageLink, PageOptions } from './types.ts';

const charsMaxDefault = 10_000_000;
const defaultFormats: readonly PageFormat[] = ['markdown', 'metadata'];
/** Formats that need no tree. Structured data needs one only for microdata and RDFa. */
const lightFormats = new Set<PageFormat>(['links', 'metadata', 'images']);
/** Fewer words than this and several scripts: the page is drawn by a script. */
const shellWordsMax = 40;
const embeddedWordsMin = 40;

export async function readPage(body: Uint8Array | string, options: PageOptions): Promise<Page> {
  const kind = kindOf(body, options.contentType);
  if (kind !== 'html') return await readOther(body, kind, options);
  const { text, charset } =
    typeof body === 'string'
      ? { text: body, charset: 'utf-8' }
      : decodeBytes(body, options.contentType);
  return readHtml(text, charset, options);
}

/** The same for text that is known to be HTML. */
export function readHtml(text: string, charset: string, options: PageOptions): Page {
  const charsMax = options.charsMax ?? charsMaxDefault;
  const html = text.length > charsMax ? text.slice(0, charsMax) : text;
  const formats = new Set(options.formats ?? defaultFormats);
  const isLight = !options.linkSelectors && [...formats].every((one) => lightFormats.has(one));
  const page = isLight ? lightPage(html, formats, options) : fullPage(html, formats, options);
  return { ...page, charset, ...(html.length < text.length ? { truncated: true } : {}) };
}

function lightPage(html: string, formats: ReadonlySet<PageFormat>, options: PageOptions): Page {
  const { head, words, textHash } = readLight(html, options, formats.has('images'));
  return {
    ...common(head, formats, options.url),
    wordCount: words,
    textHash,
    needsBrowser: isShell(words, head),
  };
}

function fullPage(html: string, formats: ReadonlySet<PageFormat>, options: PageOptions): Page {
  const root = parseHtml(html);
  const head = readHead(root, options, formats.has('images'));
  const followed = options.linkSelectors?.flatMap((one) => linksIn(root, one, head));
  const hidden = new Visibility(root);
  if (options.excludeSelectors?.length) withoutSelected(root, options.excludeSelectors);
  const part: AnyNode = options.includeSelectors?.length
    ? onlySelected(root, options.includeSelectors)
    : root;
  const segments = segment(part, hidden);
  const text = chosenText(part, root, { segments, hidden }, options);
  const words = text.chosen.reduce((sum, block) => sum + block.words, 0);
  const page: Page = {
    ...common(head, formats, options.url),
    wordCount: words,
    textHash: hashOf(text.chosen.map((block) => block.text).join('\n')),
    needsBrowser:
      text.source === undefined &&
      (isShell(segments.words, head) || (words === 0 && head.scripts > 0)),
  };
  if (followed) page.followed = followed;
  if (text.source) page.source = text.source;
  if (formats.has('structuredData'))
    page.structuredData = structuredData(root, head.ldBlocks, options.url);
  render(page, text, formats, head, options);
  return page;
}

interface ChosenText {
  root: AnyNode;
  blocks: readonly Block[];
  chosen: readonly Block[];
  hidden: Visibility;
  source?: 'embedded';
}

function chosenText(
  part: AnyNode,
  root: Document,
  { segments, hidden }: { segments: Segments; hidden: Visibility },
  options: PageOptions,
): ChosenText {
  const { blocks } = segments;
  const everything = options.onlyMainContent === false || options.includeSelectors?.length;
  const chosen = everything ? blocks : mainBlocks(segments, pageSigns(root));
  const embedded = options.includeSelectors?.length ? undefined : embeddedText(root, chosen);
  return embedded ?? { root: part, blocks, chosen, hidden };
}

/**
 * A page whose text waits in its data for a script: read it there, if the page itself has next to
 * nothing and the data clearly more.
 */
export function embeddedText(root: Document, chosen: readonly Block[]): ChosenText | undefined {
  const visibleWords = chosen.reduce((sum, block) => sum + block.words, 0);
  if (visibleWords >= embeddedWordsMin) return undefined;
  const texts = embeddedTexts(root);
  const words = texts.reduce((sum, text) => sum + countWords(text), 0);
  if (words < Math.max(embeddedWordsMin, 3 * visibleWords)) return undefined;
  const html = texts.map((text) => `<div>${/<[a-z]/i.test(text) ? text : escapeText(text)}</div>`);
  const tree = parseHtml(`<article>${html.join('\n')}</article>`);
  const hidden = new Visibility(tree);
  const { blocks } = segment(tree, hidden);
  return { root: tree, blocks, chosen: blocks, hidden, source: 'embedded' };
}

function render(
  page: Page,
  text: ChosenText,
  formats: ReadonlySet<PageFormat>,
  head: HeadReader,
  options: PageOptions,
): void {
  if (formats.has('text')) page.text = text.chosen.map((block) => block.text).join('\n');
  if (!formats.has('markdown') && !formats.has('html')) return;
  const selection = new Selection(text.blocks, text.chosen);
  const resolve = (href: string) => {
    const url = head.resolve(href);
    return url && /^(?:https?|mailto):$/.test(url.protocol) ? url.href : undefined;
  };
  if (formats.has('markdown')) {
    page.markdown = renderMarkdown(text.root, selection, {
      includeLinks: options.includeLinks ?? true,
      includeImages: options.includeImages ?? false,
      resolve,
      hides: (element) => text.hidden.hides(element),
    });
  }
  if (formats.has('html')) page.html = renderHtml(text.root, selection, resolve);
}

function readHead(root: Document, options: PageOptions, wantsImages: boolean): HeadReader {
  const head = new HeadReader(options, wantsImages);
  walk(
    root,
    (node) => {
      if (isText(node)) head.text(node.data);
      else if (isElement(node)) head.open(node.name, node.attribs);
    },
    (element) => head.close(element.name),
  );
  return head;
}

/** Links that match the selector, or stand in a part that does; those the reader of the page took for links. */
function linksIn(root: Document, selector: string, head: HeadReader): PageLink[] {
  const wanted = new Set<string | undefined>();
  const take = (node: AnyNode) => {
    if (isElement(node) && node.attribs.href !== undefined)
      wanted.add(head.resolve(node.attribs.href)?.href);
  };
  for (const part of select(root, selector)) walk(part, take);
  return head.links.filter(({ url }) => wanted.has(url));
}

type Common = Omit<Page, 'wordCount' | 'textHash' | 'needsBrowser'>;

function common(head: HeadReader, formats: ReadonlySet<PageFormat>, url: string): Common {
  const { title, canonical, refresh } = head;
  return {
    url,
    kind: 'html',
    charset: 'utf-8',
    ...(title === undefined ? {} : { title }),
    ...(formats.has('links') ? { links: head.links } : {}),
    ...(formats.has('images') ? { images: head.images } : {}),
    ...(formats.has('metadata') ? { metadata: head.metadata() } : {}),
    robots: head.robots,
    ...(canonical === undefined ? {} : { canonical }),
    ...(refresh === undefined ? {} : { refresh }),
  };
}

function isShell(words: number, head: HeadReader): boolean {
  return words < shellWordsMax && head.scripts > 0;
}

function escapeText(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/\n{2,}/g, '</div><div>');
}
