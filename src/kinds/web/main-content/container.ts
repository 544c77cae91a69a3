// Finds the element that a page marks as its main part: `main`, a single `article`, or an element named
// "content". Documents (manuals, references, books) are read in full from it, because a reader cannot notice
// a missing part of a reference. Navigation inside it is left out.
import type { Block, Ancestor, Segments } from './blocks.ts';
import { isElement, walk, type Element } from '../read/dom.ts';
import { Inside } from './inside.ts';
import { nameWords } from './lexicon.ts';

export interface Container {
  /** One entry per block: 1 if the block is in the container and is not navigation. */
  included: Uint8Array;
  words: number;
  /** True when an element or role marks the container. False when only a class name or id does. */
  isMarked: boolean;
}

/** The only `article` in a main part replaces it when it has at least this share of its words. */
const articleShare = 0.6;
/** With several main parts, one counts when it has at least this share of their total words. */
const mainShare = 0.8;
/** A named part counts when it has at least this share of the page's words. */
const namedShare = 0.3;
/**
 * The title may be above a named part. An element around both counts if it is larger by at most this factor.
 */
const titleGrowth = 1.3;
const titleWords = 120;

const contentNames = new Set(
  (
    'content contents main-content main_content maincontent mainbody main-body page-content ' +
    'pagecontent page_content doc-content docs-content doc_content content-body body-content ' +
    'bodycontent content-wrapper document documentation body main article markdown-body rst-content ' +
    'theme-doc-markdown article-body article-content article__body post-content post-body ' +
    'entry-content story-body prose docContent apicontent bd bodyText manualcontent'
  )
    .toLowerCase()
    .split(' '),
);

/** `body` is the container of a document that marks none. */
export function findContainer(
  { blocks, words }: Segments,
  isDocument: boolean,
): Container | undefined {
  if (words === 0) return undefined;
  const found = candidates(blocks);
  const main = findMain(found);
  const part = main ?? onlyArticle(found.articles, 0.4 * words) ?? findNamed(found, words);
  const ancestor = part ? withTitle(part, blocks) : isDocument ? found.body : undefined;
  return ancestor && { ...measureContainer(ancestor, blocks), isMarked: main !== undefined };
}

interface Candidates {
  mains: Ancestor[];
  articles: Ancestor[];
  named: Ancestor[];
  body: Ancestor | undefined;
}

/** Outermost first. */
function candidates(blocks: readonly Block[]): Candidates {
  const found: Candidates = { mains: [], articles: [], named: [], body: undefined };
  const seen = new Set<Ancestor>();
  for (const { ancestor } of blocks) {
    const chain: Ancestor[] = [];
    for (let at: Ancestor | undefined = ancestor; at && !seen.has(at); at = at.parent)
      chain.push(at);
    for (const one of chain.toReversed()) {
      seen.add(one);
      const { name, attribs } = one.element;
      if (name === 'body') found.body ??= one;
      else if (name === 'main' || attribs.role === 'main') found.mains.push(one);
      else if (name === 'article' || attribs.role === 'article') found.articles.push(one);
      else if (attribs.itemprop === 'articleBody') found.mains.push(one);
      else if (isNamedContent(one.element)) found.named.push(one);
    }
  }
  return found;
}

function isNamedContent({ name, attribs }: Element): boolean {
  if (name !== 'div' && name !== 'section' && name !== 'td') return false;
  const names = `${attribs.id ?? ''} ${attribs.class ?? ''}`;
  if (names.length > 300) return false;
  return names
    .toLowerCase()
    .split(/\s+/)
    .some((one) => contentNames.has(one));
}

function findMain({ mains, articles }: Candidates): Ancestor | undefined {
  const outer = outermost(mains);
  const total = outer.reduce((sum, { words }) => sum + words, 0);
  const main = outer.find(({ words }) => words > 0 && words >= mainShare * total);
  if (!main) return undefined;
  const below = articles.filter((one) => isBelow(one, main));
  return onlyArticle(below, articleShare * main.words) ?? main;
}

function onlyArticle(articles: readonly Ancestor[], minWords: number): Ancestor | undefined {
  const outer = outermost(articles).filter(({ words }) => words > 0);
  const only = outer.length === 1 ? outer[0] : undefined;
  return only && only.words >= minWords ? only : undefined;
}

/** Returns the innermost of the nested elements that contain nearly the same text. */
function findNamed({ named }: Candidates, pageWords: number): Ancestor | undefined {
  const large = named.filter(({ words }) => words >= namedShare * pageWords);
  const outer = outermost(large);
  if (outer.length !== 1) return undefined;
  let best = outer[0]!;
  for (const one of large) if (isBelow(one, best) && one.words >= 0.9 * best.words) best = one;
  return best;
}

function outermost(ancestors: readonly Ancestor[]): Ancestor[] {
  return ancestors.filter((one) => !ancestors.some((other) => isBelow(one, other)));
}

function isBelow(ancestor: Ancestor, upper: Ancestor): boolean {
  for (let at = ancestor.parent; at; at = at.parent) if (at === upper) return true;
  return false;
}

/** Extends the container to the first heading, even when that is just above the marked element. */
function withTitle(container: Ancestor, blocks: readonly Block[]): Ancestor {
  const inside = blocks
    .slice(container.firstBlock, container.lastBlock + 1)
    .some(({ heading }) => heading === 1);
  const title = inside
    ? undefined
    : blocks.slice(0, container.firstBlock).findLast(({ heading }) => heading === 1);
  if (!title || (title.ancestor.inside & Inside.nav) !== 0) return container;
  let around: Ancestor | undefined = container.parent;
  while (around && around.firstBlock > title.index) around = around.parent;
  const most = Math.max(titleGrowth * container.words, container.words + titleWords);
  return around && around.words <= most ? around : container;
}

function measureContainer(
  container: Ancestor,
  blocks: readonly Block[],
): Omit<Container, 'isMarked'> {
  const included = new Uint8Array(blocks.length);
  const known = new Map<Ancestor, boolean>([[container, true]]);
  const isIncluded = (ancestor: Ancestor | undefined): boolean => {
    if (!ancestor) return false;
    const before = known.get(ancestor);
    if (before !== undefined) return before;
    const result = isIncluded(ancestor.parent) && !isNavigation(ancestor, container);
    known.set(ancestor, result);
    return result;
  };
  let words = 0;
  for (let i = container.firstBlock; i <= container.lastBlock; i++) {
    const block = blocks[i]!;
    if (!isIncluded(block.ancestor)) continue;
    included[i] = 1;
    words += block.words;
  }
  return { included, words };
}

/** Navigation never exceeds this share of the container. */
const maxNavigationShare = 0.5;
const maxNavigationWords = 40;
const navigationDensity = 0.4;
const navigationNames = new Set(
  (
    'nav navbar navheader navfooter navigation navpath breadcrumb breadcrumbs pagination pager ' +
    'prevnext topnav bottomnav subnav sidebar footer sphinxsidebar'
  ).split(' '),
);

function isNavigation(ancestor: Ancestor, container: Ancestor): boolean {
  const { element, words, linkWords } = ancestor;
  if (words === 0 || words > maxNavigationShare * container.words) return false;
  const { name, attribs } = element;
  if (name === 'nav' || attribs.role === 'navigation') return !isLocal(element);
  if (name === 'footer' || attribs.role === 'contentinfo' || attribs.role === 'search') return true;
  if (name === 'button' || attribs.role === 'button') return true;
  // Headings and sections get their ids from their titles: a section about footers is not a footer.
  if (ancestor.headings > 0 || element.name === 'section') return false;
  const isLinks = linkWords >= navigationDensity * words;
  if (!isLinks && words > maxNavigationWords) return false;
  // A margin note is page text. A list of links in the margin is not.
  return nameWords(ancestor).some(
    (word) => navigationNames.has(word) && (isLinks || word !== 'sidebar'),
  );
}

/** A list of links to parts of the same page is its table of contents. */
function isLocal(element: Element): boolean {
  let links = 0;
  let away = 0;
  walk(element, (node) => {
    if (!isElement(node) || node.attribs.href === undefined) return;
    links++;
    if (!node.attribs.href.startsWith('#')) away++;
  });
  return links > 0 && away === 0;
}
