// API v1: the calls of v2 with the older names and formats.
import type { Api, Route, Watch } from './route.ts';
import * as crawl from './crawl.ts';
import * as pages from './pages.ts';
import * as scrape from './scrape.ts';
import { search } from './search.ts';
import { status as crawlStatus } from './status.ts';
import type { Fields } from './translate.ts';
import * as usage from './usage.ts';
import * as options from './v1-options.ts';
import { watch } from './watch.ts';

type Change = (fields: Fields) => Fields;

const unchanged: Change = (fields) => fields;

const older =
  (api: Api, fromV1: Change, toV1: Change = unchanged): Api =>
  async (asked) =>
    toV1(await api({ ...asked, input: fromV1(asked.input) }));

/** The data of a page is `extract` or `json`, depending on the format that was requested: send both. */
const documentToV1: Change = (document) =>
  document.json === undefined ? document : { ...document, extract: document.json };

const dataToV1 = ({ data, ...rest }: Fields): Fields => ({
  ...rest,
  data: Array.isArray(data)
    ? (data as Fields[]).map(documentToV1)
    : documentToV1((data ?? {}) as Fields),
});

/** The clients follow `next` whenever the field exists, even if it is null. */
const statusToV1: Change = ({ next, ...rest }) => ({
  ...dataToV1(rest),
  ...(next === null ? {} : { next }),
});

const mapToV1: Change = ({ links, ...rest }) => ({
  ...rest,
  links: (links as { url: string }[]).map(({ url }) => url),
});

const searchToV1: Change = ({ data, ...rest }) => ({
  ...rest,
  data: ((data as { web?: Fields[] }).web ?? []).map(documentToV1),
});

const extractToV1: Change = (started) => ({ ...started, urlTrace: [] });

/** v1 calls `remainingCredits` `remaining_credits`. */
const usageToV1: Change = ({ data, ...rest }) => ({
  ...rest,
  data: Object.fromEntries(
    Object.entries(data as Fields).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  ),
});

const batchFromV1: Change = (input) => options.strictOnUrls(options.readingFromV1(input));
const status = older(crawlStatus, unchanged, statusToV1);

/** The v1 watcher waits for a final message and does not poll for documents it missed. */
const watchToEnd: Watch = (asked) => watch({ ...asked, toEnd: true });

export const routesV1: Route[] = [
  ['POST', '/scrape', older(scrape.scrape, options.readingFromV1, dataToV1)],
  ['GET', '/scrape/{id}', older(scrape.scrapeStatus, unchanged, dataToV1)],
  ['POST', '/map', older(pages.map, options.mapFromV1, mapToV1)],
  ['POST', '/search', older(search, options.searchFromV1, searchToV1)],
  ['POST', '/extract', older(pages.extract, options.strictOnUrls, extractToV1)],
  ['GET', '/extract/{id}', pages.extractStatus],
  ['POST', '/crawl', older(crawl.start, options.crawlFromV1)],
  ['GET', '/crawl/active', crawl.active],
  ['GET', '/crawl/ongoing', crawl.active],
  ['GET', '/crawl/{id}', status, watchToEnd],
  ['DELETE', '/crawl/{id}', crawl.cancel],
  ['GET', '/crawl/{id}/errors', crawl.errors],
  // Its JavaScript clients read the errors with DELETE.
  ['DELETE', '/crawl/{id}/errors', crawl.errors],
  ['POST', '/batch/scrape', older(crawl.startBatch, batchFromV1)],
  ['GET', '/batch/scrape/{id}', status, watchToEnd],
  ['DELETE', '/batch/scrape/{id}', crawl.cancel],
  ['GET', '/batch/scrape/{id}/errors', crawl.errors],
  ['DELETE', '/batch/scrape/{id}/errors', crawl.errors],
  ['GET', '/team/credit-usage', older(usage.creditUsage, unchanged, usageToV1)],
  ['GET', '/team/credit-usage/historical', usage.creditHistory],
  ['GET', '/team/token-usage', older(usage.tokenUsage, unchanged, usageToV1)],
  ['GET', '/team/token-usage/historical', usage.tokenHistory],
  ['GET', '/team/queue-status', usage.queueStatus],
  ['GET', '/concurrency-check', usage.concurrency],
];
