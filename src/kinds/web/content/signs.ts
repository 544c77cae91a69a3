// What a page says about itself before its text is read: title and description words, and the
// kind of page its metadata and structured data claim (article, product, forum thread, list).
// Its address says nothing here: the same bytes give the same text, or duplicates would not be known by it.
import { isElement, isText, rawText, walk } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';

export interface PageSigns {
  titleWords: ReadonlySet<string>;
  descriptionWords: ReadonlySet<string>;
  /** Words of names and descriptions in the page's structured data. */
  dataWords: ReadonlySet<string>;
  articles: number;
  hasMain: boolean;
  isArticle: boolean;
  isProduct: boolean;
  isForum: boolean;
  isList: boolean;
}

const typePattern = /"@type"\s*:\s*(?:\[\s*)?"([A-Za-z]+)"/g;
const valuePattern =
  /"(?:name|headline|description|articleBody|reviewBody|text)"\s*:\s*"((?:[^"\\]|\\.)*)"/g;
const ldCharsMax = 300_000;

export function pageSigns(root: AnyNode): PageSigns {
  let title = '';
  let description = '';
  let kind = '';
  let articles = 0;
  let hasMain = false;
  const types = new Set<string>();
  const data: string[] = [];
  walk(root, (node) => {
    if (!isElement(node)) return;
    const { name, attribs } = node;
    if (name === 'title' && title === '') title = rawText(node);
    else if (name === 'meta') {
      const key = attribs.property ?? attribs.name ?? '';
      if (key === 'og:title') title += ` ${attribs.content ?? ''}`;
      else if (key === 'og:type') kind = attribs.content ?? '';
      else if (/^(?:og:)?description$/i.test(key)) description += ` ${attribs.content ?? ''}`;
    } else if (name === 'article') articles++;
    else if (name === 'main' || attribs.role === 'main') hasMain = true;
    else if (isLd(node)) {
      const text = ldText(node);
      for (const [, type] of text.matchAll(typePattern)) types.add(type!);
      for (const [, value] of text.matchAll(valuePattern)) data.push(value!);
    }
    if (attribs.itemtype !== undefined) types.add(attribs.itemtype.replace(/^.*\//, ''));
  });
  const has = (...names: string[]) => names.some((name) => types.has(name));
  return {
    titleWords: words(title),
    descriptionWords: words(description),
    dataWords: words(data.join(' ')),
    articles,
    hasMain,
    isArticle: kind === 'article' || has('Article', 'NewsArticle', 'BlogPosting', 'TechArticle'),
    isProduct: kind.startsWith('product') || has('Product', 'ProductGroup'),
    isForum: has('DiscussionForumPosting', 'QAPage', 'Question'),
    isList: has('ItemList', 'CollectionPage', 'OfferCatalog', 'SearchResultsPage'),
  };
}

function isLd(node: Element): boolean {
  return node.name === 'script' && /ld\+json/i.test(node.attribs.type ?? '');
}

function ldText(script: Element): string {
  const first = script.children[0];
  return first && isText(first) ? first.data.slice(0, ldCharsMax) : '';
}

function words(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? []);
}
