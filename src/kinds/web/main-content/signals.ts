// Collects what a page declares about itself before its text is read: title and description words, and the
// page type in its metadata and structured data (article, product, forum thread, list). Its URL is not used:
// the same bytes must produce the same text, or duplicates would not be found.
import { DocumentSignals } from './document.ts';
import { isElement, isText, rawText, walk } from '../read/dom.ts';
import type { AnyNode, Element } from '../read/dom.ts';

export interface PageSignals {
  titleWords: ReadonlySet<string>;
  descriptionWords: ReadonlySet<string>;
  /** Words of names and descriptions in the structured data. */
  dataWords: ReadonlySet<string>;
  articles: number;
  hasMain: boolean;
  isArticle: boolean;
  isProduct: boolean;
  isForum: boolean;
  isList: boolean;
  /** A page of a manual, reference or book. */
  isDocument: boolean;
}

const typePattern = /"@type"\s*:\s*(?:\[\s*)?"([A-Za-z]+)"/g;
const valuePattern =
  /"(?:name|headline|description|articleBody|reviewBody|text)"\s*:\s*"((?:[^"\\]|\\.)*)"/g;
const maxLdChars = 300_000;

export function readSignals(root: AnyNode): PageSignals {
  let title = '';
  let description = '';
  let kind = '';
  let articles = 0;
  let hasMain = false;
  const types = new Set<string>();
  const data: string[] = [];
  const document = new DocumentSignals();
  walk(root, (node) => {
    if (!isElement(node)) return;
    const { name, attribs } = node;
    document.see(node);
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
  const isProduct = kind.startsWith('product') || has('Product', 'ProductGroup');
  const isArticle =
    kind === 'article' || has('Article', 'NewsArticle', 'BlogPosting', 'TechArticle');
  const isForum = has('DiscussionForumPosting', 'QAPage', 'Question');
  return {
    titleWords: words(title),
    descriptionWords: words(description),
    dataWords: words(data.join(' ')),
    articles,
    hasMain,
    isArticle,
    isProduct,
    isForum,
    isList: has('ItemList', 'CollectionPage', 'OfferCatalog', 'SearchResultsPage'),
    isDocument: !isProduct && !isForum && document.isDocument(isArticle),
  };
}

function isLd(node: Element): boolean {
  return node.name === 'script' && /ld\+json/i.test(node.attribs.type ?? '');
}

function ldText(script: Element): string {
  const first = script.children[0];
  return first && isText(first) ? first.data.slice(0, maxLdChars) : '';
}

function words(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? []);
}
