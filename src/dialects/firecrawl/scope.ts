// Restricts a search to domains and categories, with operators that search engines know (site:, filetype:) and with a filter on
// the results, because not every engine supports them. Pure.
import { byName } from '../../runtime/by-name.ts';
import type { Fields } from './translate.ts';

export interface Scope {
  /** Added to the query. */
  words: string;
  fits(row: Fields): boolean;
  categoryOf(row: Fields): string | undefined;
  /** Unsupported categories. */
  unknown: string[];
}

/** Sites with papers, including those that Firecrawl names. */
const papers =
  'arxiv.org biorxiv.org medrxiv.org pubmed.ncbi.nlm.nih.gov ncbi.nlm.nih.gov nature.com science.org sciencedirect.com ieee.org acm.org springer.com researchgate.net scholar.google.com semanticscholar.org'.split(
    ' ',
  );

const categories: Record<string, { words: string[]; holds(url: URL): boolean }> = byName({
  github: placeOf(['github.com']),
  research: placeOf(papers),
  pdf: { words: ['filetype:pdf'], holds: ({ pathname }) => /\.pdf$|\/pdf\//i.test(pathname) },
});

/** Undefined if the search is not restricted. */
export function scopeOf(input: Fields): Scope | undefined {
  const wanted = (input.includeDomains ?? []) as string[];
  const unwanted = (input.excludeDomains ?? []) as string[];
  const named = ((input.categories ?? []) as (string | Fields)[]).map((one) =>
    typeof one === 'string' ? one : String(one.type),
  );
  if (wanted.length + unwanted.length + named.length === 0) return undefined;
  const known = named.filter((name) => categories[name]);
  const categoryOf = ({ url }: Fields) => {
    const address = URL.parse(String(url));
    return address ? known.find((name) => categories[name]!.holds(address)) : undefined;
  };
  return {
    words: [
      anyOf(wanted.map(siteOf)),
      ...unwanted.map((domain) => `-${siteOf(domain)}`),
      anyOf(known.flatMap((name) => categories[name]!.words)),
    ]
      .filter(Boolean)
      .join(' '),
    fits: (row) => {
      const host = URL.parse(String(row.url))?.hostname ?? '';
      const isWanted = wanted.length === 0 || wanted.some(isOf(host));
      const isNamed = known.length === 0 || categoryOf(row) !== undefined;
      return isWanted && !unwanted.some(isOf(host)) && isNamed;
    },
    categoryOf,
    unknown: named.filter((name) => !categories[name]).map((name) => `category ${name}`),
  };
}

function placeOf(domains: readonly string[]) {
  return {
    words: domains.map(siteOf),
    holds: ({ hostname }: URL) => domains.some(isOf(hostname)),
  };
}

function siteOf(domain: string): string {
  return `site:${domain}`;
}

const anyOf = (words: readonly string[]): string =>
  words.length > 1 ? `(${words.join(' OR ')})` : (words[0] ?? '');

function isOf(host: string): (domain: string) => boolean {
  return (domain) => host === domain || host.endsWith(`.${domain}`);
}
