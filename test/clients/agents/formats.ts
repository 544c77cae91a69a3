// The wire formats of the model APIs that the clients use: parses requests and formats replies.
import { randomUUID } from 'node:crypto';

/** A request as the model sees it: the names of the offered tools and the results of all earlier calls, in order. */
export interface Offer {
  tools: string[];
  results: Result[];
  /** Notifications that woke the model, for clients that have them. */
  notices?: string[];
}

export interface Result {
  tool: string;
  text: string;
}

export type Reply =
  | { say: string }
  | { tool?: string; args: Record<string, unknown>; also?: Reply };

export interface Format {
  path: RegExp;
  streams: (body: Record<string, unknown>, path: string) => boolean;
  read: (body: Record<string, unknown>) => Offer;
  write: (reply: Reply, streams: boolean) => string;
}

type Item = Record<string, unknown>;

const items = (value: unknown): Item[] => (Array.isArray(value) ? (value as Item[]) : []);
const unique = (prefix: string) => `${prefix}_${randomUUID().replaceAll('-', '')}`;
const event = (data: Item, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
const usage = { input_tokens: 10, output_tokens: 10 };

/** Content is a string, or a list of parts with a text each. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return items(content)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('');
}

type Pick = (item: Item) => [unknown, unknown] | undefined;

/** Results refer to a call id; only the call contains the tool name. */
function paired(list: Item[], { call, result }: { call: Pick; result: Pick }): Result[] {
  const names = new Map(list.map(call).filter((found) => found !== undefined));
  return list
    .map(result)
    .filter((found) => found !== undefined)
    .map(([id, content]) => ({ tool: String(names.get(id)), text: textOf(content) }));
}

/** Claude Code. */
const messages: Format = {
  path: /^\/v1\/messages$/,
  streams: (body) => body.stream === true,
  read: (body) => ({
    tools: items(body.tools).map(({ name }) => String(name)),
    notices: items(body.messages)
      .flatMap(({ content }) => items(content))
      .map(({ text }) => /<task-notification>[^]*<event>([^]*)<\/event>/.exec(String(text))?.[1])
      .filter((event) => event !== undefined),
    results: paired(
      items(body.messages).flatMap(({ content }) => items(content)),
      {
        call: ({ type, id, name }) => (type === 'tool_use' ? [id, name] : undefined),
        result: ({ type, tool_use_id, content }) =>
          type === 'tool_result' ? [tool_use_id, content] : undefined,
      },
    ),
  }),
  write: (reply, streams) => {
    const replies = 'also' in reply && reply.also ? [reply, reply.also] : [reply];
    const blocks = replies.map((each) =>
      'say' in each
        ? { type: 'text', text: each.say }
        : { type: 'tool_use', id: unique('toolu'), name: each.tool, input: each.args },
    );
    const stop = 'say' in reply ? 'end_turn' : 'tool_use';
    const message = {
      id: unique('msg'),
      type: 'message',
      role: 'assistant',
      model: 'scripted',
      content: blocks,
      stop_reason: stop,
      stop_sequence: null,
      usage,
    };
    if (!streams) return JSON.stringify(message);
    const parts = blocks.flatMap((block, index) => {
      const [empty, delta] =
        block.text === undefined
          ? [
              { ...block, input: {} },
              { type: 'input_json_delta', partial_json: JSON.stringify(block.input) },
            ]
          : [
              { type: 'text', text: '' },
              { type: 'text_delta', text: block.text },
            ];
      return [
        { type: 'content_block_start', index, content_block: empty },
        { type: 'content_block_delta', index, delta },
        { type: 'content_block_stop', index },
      ];
    });
    const stopped = { stop_reason: stop, stop_sequence: null };
    return [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
      ...parts,
      { type: 'message_delta', delta: stopped, usage: { output_tokens: 10 } },
      { type: 'message_stop' },
    ]
      .map((data) => event(data, data.type))
      .join('');
  },
};

const isCall = /_call$/;
const isOutput = /_output$/;

/** Codex. Tools of an MCP server are in a namespace, whose name is part of the call. */
const responses: Format = {
  path: /^\/v1\/responses$/,
  streams: () => true,
  read: (body) => ({
    tools: items(body.tools).flatMap((tool) =>
      tool.type === 'namespace'
        ? items(tool.tools).map(({ name }) => `${String(tool.name)}/${String(name)}`)
        : [String(tool.name ?? tool.type)],
    ),
    results: paired(items(body.input), {
      call: ({ type, call_id, name }) => (isCall.test(String(type)) ? [call_id, name] : undefined),
      result: ({ type, call_id, output }) =>
        isOutput.test(String(type)) ? [call_id, output] : undefined,
    }),
  }),
  write: (reply) => {
    const id = unique('resp');
    const item = 'say' in reply ? textItem(reply.say) : callItem(reply);
    return [
      { type: 'response.created', response: { id } },
      { type: 'response.output_item.done', output_index: 0, item },
      {
        type: 'response.completed',
        response: { id, usage: { ...usage, total_tokens: 20 }, output: [item] },
      },
    ]
      .map((data) => event(data, data.type))
      .join('');
  },
};

const textItem = (text: string): Item => ({
  type: 'message',
  id: unique('item'),
  role: 'assistant',
  content: [{ type: 'output_text', text }],
});

function callItem({ tool = '', args }: { tool?: string; args: Item }): Item {
  const [name = '', namespace] = tool.split('/').toReversed();
  const item = { type: 'function_call', call_id: unique('call'), name };
  return {
    ...item,
    ...(namespace === undefined ? {} : { namespace }),
    arguments: JSON.stringify(args),
  };
}

/** Gemini CLI. */
const generateContent: Format = {
  path: /:(?:streamG|g)enerateContent$/,
  streams: (_body, path) => path.endsWith(':streamGenerateContent'),
  read: (body) => ({
    tools: items(body.tools)
      .flatMap(({ functionDeclarations }) => items(functionDeclarations))
      .map(({ name }) => String(name)),
    results: items(body.contents)
      .flatMap(({ parts }) => items(parts))
      .flatMap(({ functionResponse }) => (functionResponse ? [functionResponse as Item] : []))
      .map(({ name, response }) => ({
        tool: String(name),
        text: textOf((response as Item).output ?? JSON.stringify(response)),
      })),
  }),
  write: (reply, streams) => {
    const part =
      'say' in reply
        ? { text: reply.say }
        : { functionCall: { id: unique('call'), name: reply.tool, args: reply.args } };
    const data = {
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
      modelVersion: 'scripted',
    };
    return streams ? event(data) : JSON.stringify(data);
  },
};

/** opencode, with its provider for OpenAI-compatible APIs. */
const chatCompletions: Format = {
  path: /^\/v1\/chat\/completions$/,
  streams: (body) => body.stream === true,
  read: (body) => ({
    tools: items(body.tools).map((tool) => String((tool.function as Item | undefined)?.name)),
    results: items(body.messages)
      .filter(({ role }) => role === 'tool')
      .map(({ name, content }) => ({ tool: String(name), text: textOf(content) })),
  }),
  write: (reply, streams) => {
    const message =
      'say' in reply
        ? { role: 'assistant', content: reply.say }
        : {
            role: 'assistant',
            content: null,
            tool_calls: [
              {
                index: 0,
                id: unique('call'),
                type: 'function',
                function: { name: reply.tool, arguments: JSON.stringify(reply.args) },
              },
            ],
          };
    const finish_reason = 'say' in reply ? 'stop' : 'tool_calls';
    const common = { id: unique('chat'), created: 0, model: 'scripted' };
    const counts = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };
    if (!streams)
      return JSON.stringify({
        ...common,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason }],
        usage: counts,
      });
    const chunk = (choice: Item) =>
      event({
        ...common,
        object: 'chat.completion.chunk',
        choices: [{ index: 0, ...choice }],
        usage: counts,
      });
    return `${chunk({ delta: message, finish_reason: null })}${chunk({ delta: {}, finish_reason })}data: [DONE]\n\n`;
  },
};

export const formats: readonly Format[] = [messages, responses, generateContent, chatCompletions];
