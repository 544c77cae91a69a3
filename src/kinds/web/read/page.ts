// readPage converts bytes of any kind to a Page. It is pure: no network, clock or state. The pool enforces
// time limits.
import { countWords, segment, type Block, type Segments } from '../main-content/blocks.ts';
import { decodeBytes } from './charset.ts';
import { renderHtml } from './clean-html.ts';
import { isElement, isText, walk, type AnyNode, type Document } from './dom.ts';
import { parseHtml } from './parse-html.ts';
import { embeddedTexts } from './embedded.ts';
import { hashOf, pageHashOf } from './hash.ts';
import { HeadReader } from './head.ts';
import { Visibility } from './hidden.ts';
import { detectKind, readNonHtml } from './documents.ts';
import { readLight } from './light.ts';
import { selectMainContent } from '../main-content/main-content.ts';
import { renderMarkdown } from '../markdown/markdown.ts';
import { toOmitted } from './omitted.ts';
import { Selection } from './selection.ts';
import { onlySelected, select, withoutSelected } from './selectors.ts';
import { readSignals } from '../main-content/signals.ts';
import { structuredData } from './structured.ts';
import type { Omitted, Page, PageFormat, PageLink, PageOptions } from './types.ts';

const defaultMaxChars = 10_000_000;
const defaultFormats: readonly PageFormat[] = ['markdown', 'metadata'];
/** Formats that need no tree. Structured data needs one only for microdata and RDFa. */
const lightFormats = new Set<PageFormat>(['links', 'metadata', 'images']);
/** A page with fewer words than this and several scripts is rendered by a script. */
const maxShellWords = 40;
const minEmbeddedWords = 40;

export async function readPage(body: Uint8Array | string, options: PageOptions): Promise<Page> {
  const kind = detectKind(body, options.contentType);
  if (kind !== 'html') return await readNonHtml(body, kind, options);
  const { text, charset } =
    typeof body === 'string'
      ? { text: body, charset: 'utf-8' }
      : decodeBytes(body, options.contentType);
  return readHtml(text, charset, options);
}

/** Like readPage, for text that is known to be HTML. */
export function readHtml(text: string, charset: string, options: PageOptions): Page {
  const maxChars = options.maxChars ?? defaultMaxChars;
  const html = text.length > maxChars ? text.slice(0, maxChars) : text;
  const formats = new Set(options.formats ?? defaultFormats);
  const isLight = !options.linkSelectors && [...formats].every((one) => lightFormats.has(one));
  const page = isLight ? lightPage(html, formats, options) : fullPage(html, formats, options);
  if (html.length === text.length) return { ...page, charset };
  const beyond = countWords(text.slice(maxChars).replace(/<[^>]*>/g, ' '));
  const whole = page.wordCount + (page.omitted?.words ?? 0) + beyond;
  const omitted = isLight ? {} : toOmitted(whole, page.wordCount, 'tooLong');
  return { ...page, charset, truncated: true, ...omitted };
}

function lightPage(html: string, formats: ReadonlySet<PageFormat>, options: PageOptions): Page {
  const { head, words, textHash, pageHash } = readLight(html, options, formats.has('images'));
  return {
    ...commonFields(head, formats, options.url),
    wordCount: words,
    textHash,
    pageHash,
    needsBrowser: isScriptShell(words, head),
  };
}

function fullPage(html: string, formats: ReadonlySet<PageFormat>, options: PageOptions): Page {
  const root = parseHtml(html);
  const head = readHead(root, options, formats.has('images'));
  const followed = options.linkSelectors?.flatMap((one) => linksIn(root, one, head));
  const hidden = new Visibility(root);
  const { includeSelectors = [], excludeSelectors = [] } = options;
  const isSelected = includeSelectors.length + excludeSelectors.length > 0;
  const whole = isSelected ? segment(root, hidden) : undefined;
  if (excludeSelectors.length > 0) withoutSelected(root, excludeSelectors);
  const part = includeSelectors.length > 0 ? onlySelected(root, includeSelectors) : root;
  const segments = segment(part, hidden);
  const text = chosenText(part, root, { segments, hidden }, options);
  const words = text.chosen.reduce((sum, block) => sum + block.words, 0);
  const { words: pageWords, hiddenWords } = whole ?? segments;
  const page: Page = {
    ...commonFields(head, formats, options.url),
    wordCount: words,
    ...toOmitted(pageWords, words, isSelected ? 'selectors' : text.reason),
    ...(hiddenWords > 0 ? { hiddenWords } : {}),
    textHash: hashOf(text.chosen.map((block) => block.text).join('\n')),
    pageHash: pageHashOf(head.title, allTexts(whole ?? segments, text)),
    needsBrowser:
      text.source === undefined &&
      (isScriptShell(segments.words, head) || (words === 0 && head.scripts > 0)),
  };
  if (followed) page.followed = followed;
  if (text.source) page.source = text.source;
  if (formats.has('structuredData'))
    page.structuredData = structuredData(root, head.ldBlocks, options.url);
  render(page, text, { formats, head }, options);
  return page;
}

/** Pages with their text in embedded data all show the same frame, so the hash includes the data. */
function allTexts({ blocks }: Segments, { chosen, source }: ChosenText): string[] {
  const all = source === undefined ? blocks : [...blocks, ...chosen];
  return all.map(({ text }) => text);
}

interface ChosenText {
  root: AnyNode;
  blocks: readonly Block[];
  chosen: readonly Block[];
  hidden: Visibility;
  reason: Omitted['reason'];
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
  const { chosen, reason } = everything
    ? { chosen: blocks, reason: 'tooLong' as const }
    : selectMainContent(segments, readSignals(root));
  const embedded = options.includeSelectors?.length ? undefined : embeddedText(root, chosen);
  return embedded ?? { root: part, blocks, chosen, hidden, reason };
}

/**
 * Reads the embedded data of a script-rendered page if the page itself has almost no text and the data
 * clearly has more.
 */
export function embeddedText(root: Document, chosen: readonly Block[]): ChosenText | undefined {
  const visibleWords = chosen.reduce((sum, block) => sum + block.words, 0);
  if (visibleWords >= minEmbeddedWords) return undefined;
  const texts = embeddedTexts(root);
  const words = texts.reduce((sum, text) => sum + countWords(text), 0);
  if (words < Math.max(minEmbeddedWords, 3 * visibleWords)) return undefined;
  const html = texts.map((text) => `<div>${/<[a-z]/i.test(text) ? text : escapeText(text)}</div>`);
  const tree = parseHtml(`<article>${html.join('\n')}</article>`);
  const hidden = new Visibility(tree);
  const { blocks } = segment(tree, hidden);
  return {
    root: tree,
    blocks,
    chosen: blocks,
    hidden,
    reason: 'notMainContent',
    source: 'embedded',
  };
}

function render(
  page: Page,
  text: ChosenText,
  { formats, head }: { formats: ReadonlySet<PageFormat>; head: HeadReader },
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

/**
 * Returns the links that match the selector or are inside a matching element. Only links that the head reader
 * accepted are returned.
 */
function linksIn(root: Document, selector: string, head: HeadReader): PageLink[] {
  const wanted = new Set<string | undefined>();
  const take = (node: AnyNode) => {
    if (isElement(node) && node.attribs.href !== undefined)
      wanted.add(head.resolve(node.attribs.href)?.href);
  };
  for (const part of select(root, selector)) walk(part, take);
  return head.links.filter(({ url }) => wanted.has(url));
}

type Common = Omit<Page, 'wordCount' | 'textHash' | 'pageHash' | 'needsBrowser'>;

function commonFields(head: HeadReader, formats: ReadonlySet<PageFormat>, url: string): Common {
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

function isScriptShell(words: number, head: HeadReader): boolean {
  return words < maxShellWords && head.scripts > 0;
}

function escapeText(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/\n{2,}/g, '</div><div>');
}
