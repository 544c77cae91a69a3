// A query over crawled pages: words, "phrases", -without, site:host; and how each database is asked for it.
import { wordsOf } from './words.ts';

export interface TextQuery {
  /** Words, each perhaps of several parts that stand together. Pages with all of them come first. */
  words: string[][];
  /** Quoted: a page without one of these is no hit. */
  phrases: string[][];
  without: string[][];
  /** Hosts, with all below them. */
  sites: string[];
}

const partsMax = 20;
const part = /(?<not>-?)(?:site:(?<site>[^\s"/]+)\S*|"(?<phrase>[^"]*)"|(?<word>\S+))/gu;

export function parseQuery(text: string): TextQuery {
  const query: TextQuery = { words: [], phrases: [], without: [], sites: [] };
  for (const { groups } of [...text.matchAll(part)].slice(0, partsMax)) {
    const { not, site, phrase, word } = groups as Record<string, string | undefined>;
    const words = wordsOf(phrase ?? word ?? '');
    if (site !== undefined) {
      if (not === '') query.sites.push(site.toLowerCase());
    } else if (words.length > 0) {
      const list = not === '-' ? query.without : phrase === undefined ? query.words : query.phrases;
      list.push(words);
    }
  }
  return query;
}

/** Whether anything is looked for: what is only left out is everything else. */
export const isAsked = ({ words, phrases }: TextQuery): boolean =>
  words.length + phrases.length > 0;

/** `all`: every word must be there; else any of them. */
export function ftsQuery(query: TextQuery, all: boolean): string {
  const phrase = (words: string[]) => `"${words.join(' ')}"`;
  return expression(query, all, { phrase, and: ' AND ', or: ' OR ', not: ' NOT ' });
}

export function tsQuery(query: TextQuery, all: boolean): string {
  const phrase = (words: string[]) => `(${words.map((word) => `'${word}'`).join(' <-> ')})`;
  return expression(query, all, { phrase, and: ' & ', or: ' | ', not: ' & !' });
}

interface Language {
  phrase(words: string[]): string;
  and: string;
  or: string;
  not: string;
}

function expression(
  { words, phrases, without }: TextQuery,
  all: boolean,
  { phrase, and, or, not }: Language,
): string {
  const any = words.map(phrase).join(all ? and : or);
  const wanted = [...phrases.map(phrase), ...(any === '' ? [] : [`(${any})`])].join(and);
  return without.reduce((said, words_) => `(${said})${not}${phrase(words_)}`, wanted);
}
