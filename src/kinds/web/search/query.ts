// Parses a query over crawled pages (words, "phrases", -exclusions, site:host) and builds the query
// expression for each database.
import { wordsOf } from './words.ts';

export interface TextQuery {
  /** Words, each possibly split into adjacent parts. Pages with all of them rank first. */
  words: string[][];
  /** Quoted phrases. A page must contain all of them. */
  phrases: string[][];
  without: string[][];
  /** Hosts, including their subdomains. */
  sites: string[];
}

const maxParts = 20;
const part = /(?<not>-?)(?:site:(?<site>[^\s"/]+)\S*|"(?<phrase>[^"]*)"|(?<word>\S+))/gu;

export function parseQuery(text: string): TextQuery {
  const query: TextQuery = { words: [], phrases: [], without: [], sites: [] };
  for (const { groups } of [...text.matchAll(part)].slice(0, maxParts)) {
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

/** Whether the query contains search terms. Exclusions alone match everything else. */
export const hasTerms = ({ words, phrases }: TextQuery): boolean =>
  words.length + phrases.length > 0;

/** With `all`, every word must match; otherwise any of them. */
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
  const wordTerms = words.map(phrase).join(all ? and : or);
  const wanted = [...phrases.map(phrase), ...(wordTerms === '' ? [] : [`(${wordTerms})`])].join(
    and,
  );
  return without.reduce((expr, excluded) => `(${expr})${not}${phrase(excluded)}`, wanted);
}
