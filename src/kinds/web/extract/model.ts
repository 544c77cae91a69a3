// Asks an OpenAI-compatible endpoint of the operator for what a page does not state in a form that
// can be read without a model. Its answer is checked like anybody's; an answer that does not fit is
// shown to it once, then given up.
import { AppError } from '../../../errors.ts';
import type { Egress } from '../../../runtime/egress/index.ts';
import type { ModelRequest } from './extract.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { Reader } from '../fetch/reader.ts';
import type { SchemaProblem } from './schema.ts';

export interface ModelEndpoint {
  /** Base address, as https://host/v1 */
  url: string;
  /** The model's name there. */
  name: string;
  key?: string;
  timeoutMs: number;
  egress: Egress;
  reader: Pick<Reader, 'check'>;
}

export interface ModelAnswer {
  value: unknown;
  valid: boolean;
  problems: SchemaProblem[];
  model: string;
  tokens?: number;
}

const triesMax = 2;
const answerBytesMax = 2 * 1024 * 1024;

interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export async function askModel(
  request: ModelRequest,
  endpoint: ModelEndpoint,
  signal: AbortSignal,
): Promise<ModelAnswer> {
  const messages = firstMessages(request);
  let tokens = 0;
  let answer: ModelAnswer | undefined;
  for (let attempt = 1; attempt <= triesMax; attempt++) {
    const reply = await complete(messages, endpoint, signal);
    tokens += reply.tokens;
    const value = parseAnswer(reply.content);
    const problems =
      value === undefined
        ? [{ path: '', message: 'the answer is no JSON' }]
        : (await endpoint.reader.check(request.schema, value)).problems;
    answer = { value: value ?? null, valid: problems.length === 0, problems, model: endpoint.name };
    if (tokens > 0) answer.tokens = tokens;
    if (answer.valid) return answer;
    const faults = problems.map(({ path, message }) => `${path || 'the value'} ${message}`);
    messages.push(
      { role: 'assistant', content: reply.content.slice(0, 20_000) },
      {
        role: 'user',
        content: `That does not fit the schema: ${faults.join('; ')}. Answer again.`,
      },
    );
  }
  return answer!;
}

function firstMessages({ instructions, schema, content }: ModelRequest): Message[] {
  return [
    { role: 'system', content: `${instructions} Answer with JSON only, no other words.` },
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
    bytesMax: answerBytesMax,
    signal,
  });
  const text = await response.body.text();
  if (response.status < 200 || response.status >= 300)
    throw refused(endpoint, response.status, text);
  return readCompletion(text, endpoint);
}

function readCompletion(text: string, { url }: ModelEndpoint): { content: string; tokens: number } {
  const body = parseAnswer(text);
  const choices = isRecord(body) && Array.isArray(body.choices) ? body.choices : [];
  const message = isRecord(choices[0]) && isRecord(choices[0].message) ? choices[0].message : {};
  if (typeof message.content !== 'string') {
    throw new AppError('unavailable', `The model endpoint ${url} did not answer as expected.`, {
      hint: 'It must speak the chat completions interface; check web.model.url.',
    });
  }
  const usage = isRecord(body) && isRecord(body.usage) ? body.usage.total_tokens : 0;
  return { content: message.content, tokens: typeof usage === 'number' ? usage : 0 };
}

function refused({ url, name, key }: ModelEndpoint, status: number, body: string): AppError {
  // Some endpoints repeat the key that they refuse.
  const said = (key ? body.replaceAll(key, '[key]') : body).slice(0, 300);
  if (status === 429) {
    return new AppError('rateLimited', `The model endpoint has too much to do (429): ${said}`);
  }
  return new AppError('unavailable', `The model endpoint ${url} answered ${status}: ${said}`, {
    hint:
      status === 401 || status === 403
        ? 'Check the key named in web.model.keyName.'
        : `Check web.model.url and that it serves the model ${name}.`,
  });
}

/** Models wrap JSON in fences or words. */
function parseAnswer(text: string): unknown {
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
