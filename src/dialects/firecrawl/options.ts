// The options that each call supports. The response names every other option that was set: options without an effect on one
// machine, and unknown or misspelt ones.
import { byName } from '../../runtime/by-name.ts';
import { given, type Fields } from './translate.ts';

const reading =
  'url formats onlyMainContent includeTags excludeTags headers timeout waitFor actions maxAge storeInCache';
const used = {
  reading: names(reading),
  batch: names(reading, 'urls ignoreInvalidURLs maxConcurrency webhook appendToId'),
  crawl: names(
    'url limit maxDiscoveryDepth sitemap allowSubdomains allowExternalLinks ignoreQueryParameters ignoreRobotsTxt',
    'delay maxConcurrency includePaths excludePaths regexOnFullURL crawlEntireDomain scrapeOptions webhook prompt',
  ),
  map: names('url limit search sitemap includeSubdomains ignoreQueryParameters timeout'),
  search: names(
    'query limit sources categories includeDomains excludeDomains tbs country language safe scrapeOptions ignoreInvalidURLs timeout',
  ),
  extract: names('urls prompt schema enableWebSearch ignoreInvalidURLs showSources'),
  agent: names('prompt urls schema maxCredits strictConstrainToURLs'),
};

/** Options about the client and about what Firecrawl's cloud does with the response. */
const silent = names('origin integration auditMetadata domainTools toolDetail threatProtection');

/** Values with which an option requests the default behaviour. */
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
  parsers: ['[]', '["pdf"]', '["pdf","image"]', '[{"type":"pdf"}]'],
  proxy: ['"basic"', '"auto"'],
  redactPII: ['false'],
  removeBase64Images: ['true'],
  scrapeOptions: ['{}'],
  skipTlsVerification: ['false'],
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
