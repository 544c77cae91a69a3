// Formats errors as Firecrawl does, {success: false, error, code}, and explains which parts of its API are missing. Pure.
import { byName } from '../../runtime/by-name.ts';
import type { DialectResponse } from '../../dialect.ts';
import { AppError, callerError, errorKind } from '../../errors.ts';
import { inTheirNames } from './body.ts';

export function failure(error: unknown, path: string): DialectResponse {
  const { code, message, hint, data } = callerError(absence(error, path) ?? inTheirNames(error));
  const reason = typeof data?.reason === 'string' ? data.reason : code;
  // The job that failed, if one was started.
  const job = typeof data?.jobId === 'string' ? { id: data.jobId } : {};
  const text = plain.has(reason) ? message : `${message} ${hint}`;
  const body = Array.isArray(data?.details)
    ? { success: false, error: 'Bad Request', code: 'BAD_REQUEST', details: data.details }
    : { success: false, error: text, code: codes[reason] ?? code, ...job };
  const http = reason === 'timeout' ? 504 : errorKind(code).http;
  return { status: statuses[http] ?? http, body };
}

/** Firecrawl's clients retry a 502 three times, but an unreadable page is a result and not an outage. Timeouts are 408. */
const statuses: Record<number, number> = { 502: 500, 504: 408 };

/** Clients compare these messages, so no hint is added. */
const plain = new Set(['mapTimeout']);

/** Firecrawl's codes by our code or by the reason of a failed page. */
const codes: Record<string, string> = byName({
  mapTimeout: 'MAP_TIMEOUT',
  dns: 'SCRAPE_DNS_RESOLUTION_ERROR',
  timeout: 'SCRAPE_TIMEOUT',
  tls: 'SCRAPE_SSL_ERROR',
});

/** Missing parts of its API, and what to use instead. */
const absent: [path: RegExp, what: string, instead: string][] = [
  [/^\/v0\b/, 'Version 0 of the API is not available.', 'Use /firecrawl/v2, or /firecrawl/v1 for older clients.'],
  [/^\/v1\/deep-research\b/, 'Deep research is not available.', 'Use /firecrawl/v2/agent.'],
  [/^\/v1\/llmstxt\b/, 'The llms.txt generator is not available.', 'Crawl the site and use the markdown of its pages.'],
  [/^\/v2\/monitor\b/, 'Monitors are not available.', 'Start a crawl with the format changeTracking at the interval you need.'],
  [/^\/v2\/(?:interact|browser|scrape\/[^/]+\/interact)\b/, 'Browser sessions are not available.', 'Pass the actions to /scrape.'],
  [/^\/v2\/parse\b/, 'Uploaded files are not supported.', 'Scrape the URL of the file.'],
  [/^\/v2\/crawl\/params-preview\b/, 'Prompts are not converted to options.', 'Pass the options themselves.'],
  [/^\/(?:exchange|v2\/search\/)/, 'Indexes of papers, code and tools are not available.', 'Use /v2/search.'],
  [/^\/v2\/agent(?:\/[^/]+\/.+)?$/, 'Lists and traces of agents are not available.', 'GET /v2/agent/{id} returns the state, sources and data of one agent.'],
]; // prettier-ignore

/** The error for a path without a route. */
const isUnknown = (error: unknown): boolean =>
  error instanceof AppError && ['notFound', 'methodNotAllowed'].includes(error.code);

function absence(error: unknown, path: string): AppError | undefined {
  if (!isUnknown(error)) return undefined;
  const below = path.replace(/^\/firecrawl/, '');
  const found = absent.find(([pattern]) => pattern.test(below));
  return found && new AppError('unsupported', found[1], { hint: found[2] });
}
