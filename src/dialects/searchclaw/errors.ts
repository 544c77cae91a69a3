// Our errors in SearchClaw's documented shape: {error: {code, message, status}}. Pure.
import { byName, ownValue } from '../../runtime/by-name.ts';
import { callerError, errorKind } from '../../errors.ts';
import { inputErrorAs } from '../../operation.ts';

const codes: Record<string, string> = byName({
  invalidInput: 'invalid_request',
  unauthorized: 'unauthorized',
  forbidden: 'forbidden',
  egressRefused: 'forbidden',
  robotsDisallowed: 'forbidden',
  notFound: 'not_found',
  budgetExhausted: 'credits_exhausted',
  internal: 'internal_error',
  rateLimited: 'rate_limited',
  limitExceeded: 'rate_limited',
});

interface Fault {
  code: string;
  message: string;
  status: number;
  hint: string;
  /** The failed job, if one was started. */
  job_id?: string;
}

export function faultOf(error: unknown): Fault {
  const { code, message, hint, data } = callerError(error);
  return {
    code: codes[code] ?? code.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    message,
    status: errorKind(code).http,
    hint,
    ...(typeof data?.jobId === 'string' ? { job_id: data.jobId } : {}),
  };
}

/** Fields whose names differ from ours by more than spelling. */
const names: Record<string, Record<string, string>> = byName<Record<string, string>>({
  web_search: { query: 'q' },
  map_site: { limit: 'max_pages' },
  crawl_site: {
    include: 'include_paths',
    exclude: 'exclude_paths',
    includeSelectors: 'list_selector',
    linkSelectors: 'pagination.selector',
    pageTimeoutMs: 'timeout_ms',
  },
  browse_page: { timeoutMs: 'timeout' },
});

/** Replaces our field names in input errors by SearchClaw's. */
export function inTheirNames(error: unknown, operation: string): unknown {
  const own = names[operation] ?? {};
  const spelled = (name: string) =>
    ownValue(own, name) ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return inputErrorAs(error, spelled, 'The fields and their limits are those of SearchClaw.');
}
