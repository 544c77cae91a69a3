// Sends one request to a search engine through the guarded egress. Failures become errors that say what to do
// next.
import { AppError } from '../../../errors.ts';
import type { Egress, EgressRequest } from '../../../runtime/egress/index.ts';
import { isElement, isText, tidy, walk } from '../read/dom.ts';
import { parseHtml } from '../read/parse-html.ts';

export interface FetchOptions {
  engine: string;
  egress: Egress;
  timeoutMs: number;
  maxBytes: number;
  signal: AbortSignal;
  /** Returns an error for statuses that have a special meaning for this engine. */
  diagnose?(status: number, body: string): AppError | undefined;
}

export async function fetchText(
  url: URL,
  options: FetchOptions,
  request: Pick<EgressRequest, 'method' | 'headers' | 'body'> = {},
): Promise<string> {
  const { egress, signal, timeoutMs, maxBytes, engine } = options;
  const { response, body } = await egress
    .request({ url, trust: 'trusted', signal, timeoutMs, maxBytes, ...request })
    .then(async (received) => ({ response: received, body: await received.body.text() }))
    .catch((error: unknown) => {
      throw networkError(engine, url, error);
    });
  if (response.status >= 200 && response.status < 300) return body;
  throw (
    options.diagnose?.(response.status, body) ??
    statusError(engine, response.status, header(response.headers, 'retry-after'))
  );
}

export async function fetchJson(
  url: URL,
  options: FetchOptions,
  request: Pick<EgressRequest, 'method' | 'headers' | 'body'> = {},
): Promise<JsonValue> {
  const headers = { accept: 'application/json', ...request.headers };
  const text = await fetchText(url, options, { ...request, headers });
  try {
    return new JsonValue(JSON.parse(text));
  } catch (error) {
    const start = tidy(text.slice(0, 200));
    throw new AppError('unavailable', `${options.engine} did not return JSON: ${start}`, {
      hint: `Check that the ${options.engine} URL in the settings is its API URL.`,
      cause: error,
    });
  }
}

function header(
  headers: Record<string, string | string[] | undefined>,
  name: string,
): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function networkError(engine: string, url: URL, error: unknown): Error {
  if (!(error instanceof AppError))
    return error instanceof Error ? error : new Error(String(error));
  if (error.code === 'timeout') {
    return new AppError('timeout', `${engine} did not respond in time (${url.host}).`, {
      hint: 'Try again, or raise web.search.timeoutMs.',
      cause: error,
    });
  }
  if (error.code === 'egressTooLarge') {
    return new AppError('unavailable', `The response from ${engine} is too large.`, {
      hint: 'Request fewer rows, or raise web.search.maxResponseBytes.',
      cause: error,
    });
  }
  const why = error.message.replace(`${url.href} could not be fetched: `, '');
  return new AppError('unavailable', `${engine} is not reachable at ${url.origin}: ${why}`, {
    hint: 'Check that it is running, its URL in the settings, and the network.',
    cause: error,
  });
}

function statusError(engine: string, status: number, retryAfter: string | undefined): AppError {
  if (status === 401 || status === 403) {
    return new AppError('unavailable', `${engine} refused the request (${status}).`, {
      hint: `Check the ${engine} key: it is missing, invalid or lacks permission.`,
    });
  }
  if (status === 429) {
    const when = retryAfter === undefined ? 'later' : `after ${retryAfter} s`;
    return new AppError('rateLimited', `${engine} reported too many requests (429).`, {
      hint: `Try again ${when}. The key may have used up its quota.`,
    });
  }
  return new AppError('unavailable', `${engine} responded with status ${status}.`, {
    hint:
      status >= 500
        ? 'The engine has a server error. Try again later.'
        : 'The engine API may have changed.',
  });
}

/** Safe access to external JSON: a field of an unexpected type is treated as absent. */
export class JsonValue {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }

  at(...keys: string[]): JsonValue {
    let value = this.value;
    for (const key of keys) {
      value =
        typeof value === 'object' && value !== null
          ? (value as Record<string, unknown>)[key]
          : undefined;
    }
    return new JsonValue(value);
  }

  list(...keys: string[]): JsonValue[] {
    const { value } = this.at(...keys);
    const entries = Array.isArray(value) ? value : isMap(value) ? Object.values(value) : [];
    return entries.slice(0, 500).map((entry) => new JsonValue(entry));
  }

  text(...keys: string[]): string | undefined {
    const { value } = this.at(...keys);
    return typeof value === 'string' && value !== '' ? value : undefined;
  }

  number(...keys: string[]): number | undefined {
    const { value } = this.at(...keys);
    return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
  }
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

const maxSnippetChars = 1000;

/** Engines highlight matches with tags. A snippet is plain text. */
export function plainText(html: string | undefined): string {
  if (html === undefined) return '';
  if (!/[<&]/.test(html)) return tidy(html).slice(0, maxSnippetChars);
  const deps: string[] = [];
  walk(parseHtml(html.slice(0, 20_000)), (node) => {
    if (isText(node)) deps.push(node.data);
    return !(isElement(node) && (node.name === 'script' || node.name === 'style'));
  });
  return tidy(deps.join('')).slice(0, maxSnippetChars);
}

/** Converts a date to ISO 8601. Returns undefined for an invalid date. */
export function isoDate(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const gdelt = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  const plain = gdelt
    ? `${gdelt[1]}-${gdelt[2]}-${gdelt[3]}T${gdelt[4]}:${gdelt[5]}:${gdelt[6]}Z`
    : text;
  const time = Date.parse(plain);
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

export function isWebUrl(url: string | undefined): url is string {
  return url !== undefined && /^https?:\/\//i.test(url) && URL.canParse(url);
}
