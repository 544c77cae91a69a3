// Our errors in Firecrawl's form, {success: false, error, code}, and a reason for what of its API is not here. Pure.
import { byName } from '../../runtime/by-name.ts';
import type { DialectResponse } from '../../dialect.ts';
import { AppError, callerError, errorKind } from '../../errors.ts';
import { inTheirNames } from './body.ts';

export function failure(error: unknown, path: string): DialectResponse {
  const { code, message, hint, data } = callerError(absence(error, path) ?? inTheirNames(error));
  const reason = typeof data?.reason === 'string' ? data.reason : code;
  const body = { success: false, error: `${message} ${hint}`, code: codes[reason] ?? code };
  const http = reason === 'timeout' ? 504 : errorKind(code).http;
  return { status: statuses[http] ?? http, body };
}

/** Its clients try a 502 again three times; a page that cannot be had is an answer, not an outage. Its timeout is 408. */
const statuses: Record<number, number> = { 502: 500, 504: 408 };

/** Its codes, by ours or by why a page could not be had. */
const codes: Record<string, string> = byName({
  dns: 'SCRAPE_DNS_RESOLUTION_ERROR',
  timeout: 'SCRAPE_TIMEOUT',
  tls: 'SCRAPE_SSL_ERROR',
});

/** Parts of its API that are not here, and what to use. */
const absent: [path: RegExp, what: string, instead: string][] = [
  [/^\/v[01]\b/, 'Only v2 of the API is here.', 'Its base address ends in /firecrawl, its paths begin with /v2.'],
  [/^\/v2\/monitor\b/, 'There are no monitors here.', 'Start a crawl with the format changeTracking as often as you like.'],
  [/^\/v2\/(?:interact|browser|scrape\/[^/]+\/interact)\b/, 'There are no browser sessions here.', 'Give the actions to /scrape.'],
  [/^\/v2\/parse\b/, 'Files are not taken here.', 'Scrape the file at its address.'],
  [/^\/v2\/crawl\/params-preview\b/, 'A prompt is not made into options here.', 'Give the options themselves.'],
  [/^\/(?:exchange|v2\/search\/)/, 'Its indexes of papers, code and tools are not here.', 'Use /v2/search.'],
  [/^\/v2\/agent(?:\/[^/]+\/.+)?$/, 'Agents are not listed, and have no trace, here.', 'GET /v2/agent/{id} has the state, the sources and the data of one.'],
]; // prettier-ignore

/** What is thrown for a path without a route. */
const isUnknown = (error: unknown): boolean =>
  error instanceof AppError && ['notFound', 'methodNotAllowed'].includes(error.code);

function absence(error: unknown, path: string): AppError | undefined {
  if (!isUnknown(error)) return undefined;
  const below = path.replace(/^\/firecrawl/, '');
  const found = absent.find(([pattern]) => pattern.test(below));
  return found && new AppError('unsupported', found[1], { hint: found[2] });
}
