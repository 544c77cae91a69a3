// One question to one engine: JSON over the guarded way out, with failures put in words that say
// what to do.
import { AppError } from '../../../errors.ts';
import type { Egress, EgressRequest } from '../../../runtime/egress/index.ts';
import { isElement, isText, parseHtml, tidy, walk } from '../content/dom.ts';

export interface AskOptions {
  engine: string;
  egress: Egress;
  timeoutMs: number;
  bytesMax: number;
  signal: AbortSignal;
  /** What a status means with this engine, where the usual words would mislead. */
  diagnose?(status: number, body: string): AppError | undefined;
}

export async function askText(
  url: URL,
  options: AskOptions,
  request: Pick<EgressRequest, 'method' | 'headers' | 'body'> = {},
): Promise<string> {
  const { egress, signal, timeoutMs, bytesMax, engine } = options;
  const { response, body } = await egress
    .request({ url, trust: 'trusted', signal, timeoutMs, bytesMax, ...request })
    .then(async (answer) => ({ response: answer, body: await answer.body.text() }))
    .catch((error: unknown) => {
      throw unreachable(engine, url, error);
    });
  if (response.status >= 200 && response.status < 300) return body;
  throw (
    options.diagnose?.(response.status, body) ??
    refused(engine, response.status, header(response.headers, 'retry-after'))
  );
}

export async function askJson(
  url: URL,
  options: AskOptions,
  request: Pick<EgressRequest, 'method' | 'headers' | 'body'> = {},
): Promise<Answer> {
  const headers = { accept: 'application/json', ...request.headers };
  const text = await askText(url, options, { ...request, headers });
  try {
    return new Answer(JSON.parse(text));
  } catch (error) {
    const start = tidy(text.slice(0, 200));
    throw new AppError('unavailable', `${options.engine} did not answer with JSON: ${start}`, {
      hint: `Check that the address of ${options.engine} in the settings is that of its API.`,
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

function unreachable(engine: string, url: URL, error: unknown): Error {
  if (!(error instanceof AppError))
    return error instanceof Error ? error : new Error(String(error));
  if (error.code === 'timeout') {
    return new AppError('timeout', `${engine} did not answer in time (${url.host}).`, {
      hint: 'Try again, or raise web.search.timeoutMs.',
      cause: error,
    });
  }
  if (error.code === 'egressTooLarge') {
    return new AppError('unavailable', `The answer of ${engine} is too long.`, {
      hint: 'Ask for fewer rows, or raise web.search.answerBytesMax.',
      cause: error,
    });
  }
  const why = error.message.replace(`${url.href} could not be fetched: `, '');
  return new AppError('unavailable', `${engine} cannot be reached at ${url.origin}: ${why}`, {
    hint: 'Check that it runs, its address in the settings, and the network.',
    cause: error,
  });
}

function refused(engine: string, status: number, retryAfter: string | undefined): AppError {
  if (status === 401 || status === 403) {
    return new AppError('unavailable', `${engine} refused the request (${status}).`, {
      hint: `Check the key of ${engine}: it is missing, wrong or not allowed to do this.`,
    });
  }
  if (status === 429) {
    const when = retryAfter === undefined ? 'later' : `after ${retryAfter} s`;
    return new AppError('rateLimited', `${engine} says there were too many requests (429).`, {
      hint: `Try again ${when}; the quota of the key may be used up.`,
    });
  }
  return new AppError('unavailable', `${engine} answered with status ${status}.`, {
    hint: status >= 500 ? 'It is in trouble itself; try again later.' : 'Its API may have changed.',
  });
}

/** JSON from outside, read with care: a field that is not as expected is absent. */
export class Answer {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }

  at(...keys: string[]): Answer {
    let value = this.value;
    for (const key of keys) {
      value =
        typeof value === 'object' && value !== null
          ? (value as Record<string, unknown>)[key]
          : undefined;
    }
    return new Answer(value);
  }

  list(...keys: string[]): Answer[] {
    const { value } = this.at(...keys);
    const entries = Array.isArray(value) ? value : isMap(value) ? Object.values(value) : [];
    return entries.slice(0, 500).map((entry) => new Answer(entry));
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

const snippetCharsMax = 1000;

/** Engines mark hits with tags; a snippet is plain text. */
export function plainText(html: string | undefined): string {
  if (html === undefined) return '';
  if (!/[<&]/.test(html)) return tidy(html).slice(0, snippetCharsMax);
  const parts: string[] = [];
  walk(parseHtml(html.slice(0, 20_000)), (node) => {
    if (isText(node)) parts.push(node.data);
    return !(isElement(node) && (node.name === 'script' || node.name === 'style'));
  });
  return tidy(parts.join('')).slice(0, snippetCharsMax);
}

/** A date as ISO, or nothing. */
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
