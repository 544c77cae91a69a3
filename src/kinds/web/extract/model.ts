// Asks the operator's OpenAI-compatible endpoint for fields that cannot be read without a model. Its response
// is checked like any other; an invalid one is sent back with the problems once.
import { AppError } from '../../../errors.ts';
import type { Egress } from '../../../runtime/egress/index.ts';
import type { ModelRequest } from './extract.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { Reader } from '../read/reader.ts';
import type { SchemaProblem } from './schema.ts';

interface ModelEndpoint {
  /** Base URL, such as https://host/v1 */
  url: string;
  /** The model name at this endpoint. */
  name: string;
  key?: string;
  timeoutMs: number;
  egress: Egress;
  reader: Pick<Reader, 'check'>;
}

interface ModelResult {
  value: unknown;
  valid: boolean;
  problems: SchemaProblem[];
  model: string;
  tokens?: number;
}

const maxTries = 2;
const maxResponseBytes = 2 * 1024 * 1024;

interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export async function askModel(
  request: ModelRequest,
  endpoint: ModelEndpoint,
  signal: AbortSignal,
): Promise<ModelResult> {
  const messages = firstMessages(request);
  let tokens = 0;
  let result: ModelResult | undefined;
  for (let attempt = 1; attempt <= maxTries; attempt++) {
    const reply = await complete(messages, endpoint, signal);
    tokens += reply.tokens;
    const value = parseJsonText(reply.content);
    const problems =
      value === undefined
        ? [{ path: '', message: 'the response is not JSON' }]
        : (await endpoint.reader.check(request.schema, value)).problems;
    result = { value: value ?? null, valid: problems.length === 0, problems, model: endpoint.name };
    if (tokens > 0) result.tokens = tokens;
    if (result.valid) return result;
    const problemLines = problems.map(({ path, message }) => `${path || 'the value'} ${message}`);
    messages.push(
      { role: 'assistant', content: reply.content.slice(0, 20_000) },
      {
        role: 'user',
        content: `That does not match the schema: ${problemLines.join('; ')}. Try again.`,
      },
    );
  }
  return result!;
}

function firstMessages({ instructions, schema, content }: ModelRequest): Message[] {
  return [
    { role: 'system', content: `${instructions} Return only JSON, no other text.` },
    {
      role: 'user',
      content: JSON.stringify({ schema, content }),
    },
  ];
}

async function complete(
  messages: readonly Message[],
  endpoint: ModelEndpoint,
  signal: AbortSignal,
): Promise<{ content: string; tokens: number }> {
  const { url, name, key, timeoutMs, egress } = endpoint;
  const response = await egress.request({
    url: `${url.replace(/\/$/, '')}/chat/completions`,
    method: 'POST',
    trust: 'trusted',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify({
      model: name,
      messages,
      temperature: 0,
      response_format: { type: 'json_object' },
    }),
    timeoutMs,
    headersTimeoutMs: timeoutMs,
    maxBytes: maxResponseBytes,
    signal,
  });
  const text = await response.body.text();
  if (response.status < 200 || response.status >= 300)
    throw endpointError(endpoint, response.status, text);
  return readCompletion(text, endpoint);
}

function readCompletion(text: string, { url }: ModelEndpoint): { content: string; tokens: number } {
  const body = parseJsonText(text);
  const choices = isRecord(body) && Array.isArray(body.choices) ? body.choices : [];
  const message = isRecord(choices[0]) && isRecord(choices[0].message) ? choices[0].message : {};
  if (typeof message.content !== 'string') {
    throw new AppError(
      'unavailable',
      `The model endpoint ${url} returned an unexpected response.`,
      {
        hint: 'It must support the chat completions API. Check web.model.url.',
      },
    );
  }
  const usage = isRecord(body) && isRecord(body.usage) ? body.usage.total_tokens : 0;
  return { content: message.content, tokens: typeof usage === 'number' ? usage : 0 };
}

function endpointError({ url, name, key }: ModelEndpoint, status: number, body: string): AppError {
  // Some endpoints repeat the rejected key in their response.
  const details = (key ? body.replaceAll(key, '[key]') : body).slice(0, 300);
  if (status === 429) {
    return new AppError('rateLimited', `The model endpoint is overloaded (429): ${details}`);
  }
  return new AppError('unavailable', `The model endpoint ${url} returned ${status}: ${details}`, {
    hint:
      status === 401 || status === 403
        ? 'Check the key named in web.model.keyName.'
        : `Check web.model.url and that it serves the model ${name}.`,
  });
}

/** Models wrap JSON in code fences or text. */
function parseJsonText(text: string): unknown {
  const fenced = /```(?:json)?\s*([\s\S]*?)```/.exec(text)?.[1];
  const braced = /[[{][\s\S]*[\]}]/.exec(text)?.[0];
  for (const candidate of [text, fenced, braced]) {
    if (candidate === undefined) continue;
    try {
      return JSON.parse(candidate);
    } catch {
      continue;
    }
  }
  return undefined;
}
