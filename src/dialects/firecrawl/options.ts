// Which options each call has a use for. Every other one that asks for something is named in the answer: those of the
// original that have no effect on one machine, and those that nobody knows, such as a misspelt one.
import { byName } from '../../runtime/by-name.ts';
import { given, type Fields } from './translate.ts';

const reading =
  'url formats onlyMainContent includeTags excludeTags headers timeout waitFor actions maxAge';
const used = {
  reading: names(reading),
  batch: names(reading, 'urls ignoreInvalidURLs maxConcurrency webhook appendToId'),
  crawl: names(
    'url limit maxDiscoveryDepth sitemap allowSubdomains allowExternalLinks ignoreQueryParameters ignoreRobotsTxt',
    'delay maxConcurrency includePaths excludePaths regexOnFullURL crawlEntireDomain scrapeOptions webhook prompt',
  ),
  map: names('url limit search sitemap includeSubdomains ignoreQueryParameters timeout'),
  search: names(
    'query limit sources categories includeDomains excludeDomains tbs country safe scrapeOptions ignoreInvalidURLs timeout',
  ),
  extract: names('urls prompt schema enableWebSearch ignoreInvalidURLs showSources'),
  agent: names('prompt urls schema maxCredits strictConstrainToURLs'),
};

/** Who asks, and what only the original's own service does with the answer. */
const silent = names('origin integration auditMetadata domainTools toolDetail threatProtection');

/** Values with which an option asks for nothing but what is done anyway. */
const idle: Record<string, string[]> = byName({
  agent: ['{}'],
  allowExternalLinks: ['false'],
  blockAds: ['true'],
  categories: ['[]'],
  deduplicateSimilarURLs: ['true'],
  enterprise: ['[]'],
  fastMode: ['false'],
  highlights: ['false'],
  ignoreCache: ['true', 'false'],
  location: ['{}'],
  lockdown: ['false'],
  mobile: ['false'],
  onlyCleanContent: ['false'],
  parsers: ['["pdf"]', '[{"type":"pdf"}]'],
  proxy: ['"basic"', '"auto"'],
  redactPII: ['false'],
  removeBase64Images: ['true'],
  scrapeOptions: ['{}'],
  skipTlsVerification: ['false'],
  storeInCache: ['true'],
  zeroDataRetention: ['false'],
});

export function unusedOf(options: Fields, call: keyof typeof used): string[] {
  const isAsking = (name: string) =>
    !(idle[name] ?? []).includes(JSON.stringify(options[name])) && !silent.has(name);
  return Object.keys(given(options)).filter((name) => !used[call].has(name) && isAsking(name));
}

function names(...lists: string[]): ReadonlySet<string> {
  return new Set(lists.flatMap((list) => list.split(' ')));
}
