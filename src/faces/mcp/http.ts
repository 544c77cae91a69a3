// MCP over Streamable HTTP, stateless: every request is whole, any node can answer it. Mounted by the HTTP face, which
// checks Host, Origin and key before.
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createMcpHandler,
  InMemoryServerEventBus,
  ProtocolErrorCode,
  type McpHttpHandler,
} from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { AppError, callerError, errorKind } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { readBody } from '../../runtime/wire.ts';
import { urisOf, watchAll } from './listen.ts';
import { acknowledged, asksForTasks, followTasks, inward, outward } from './task-listen.ts';
import { createServer } from './server.ts';
import type { JsonObject, Source } from './source.ts';
import { FinishedTasks } from './tasks.ts';
import type { ToolChoice } from './table.ts';

export interface McpHttpOptions {
  /** A source for this caller; throws an AppError for a choice that cannot be served. */
  source(caller: Caller | undefined, choice: ToolChoice): Source;
  version: string;
  /** Larger bodies are refused. */
  bodyBytesMax: number;
  clock: Clock;
  log: Log;
}

export interface McpHttp {
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    caller: Caller | undefined,
  ): Promise<void>;
  close(): Promise<void>;
}

const listensMax = 1024;
/** Comments on quiet streams, so that proxies keep them. */
const keepAliveMs = 15_000;

export function createMcpHttp(options: McpHttpOptions): McpHttp {
  const { version, clock, log } = options;
  // The SDK takes no 0 for a limit.
  const bodyBytesMax = Math.max(1, options.bodyBytesMax);
  const finished = new FinishedTasks(clock);
  const open = new Set<McpHttpHandler>();
  let listens = 0;

  const handle: McpHttp['handle'] = async (request, response, caller) => {
    let source: Source;
    try {
      source = options.source(caller, choiceOf(request));
      // Refused here and not by the SDK, which closes the connection: a client that still sends would not read why.
      if (Number(request.headers['content-length']) > bodyBytesMax)
        await readBody(request, { bytesMax: bodyBytesMax, setting: 'http.bodyBytesMax' });
      if (isListen(request) && listens >= listensMax)
        throw new AppError('limitExceeded', `More than ${listensMax} clients listen.`);
    } catch (error) {
      return refuse(response, error);
    }
    const stop = new AbortController();
    response.once('close', () => stop.abort());
    let parsed = isListen(request) ? await readJson(request, bodyBytesMax) : undefined;
    let withTasks = false;
    if (isMessage(parsed) && asksForTasks(parsed)) {
      const turned = await inward(parsed, source, stop.signal);
      if ('answer' in turned) return sendMessage(response, 400, turned.answer);
      parsed = turned.pass;
      withTasks = true;
    }
    const bus = new InMemoryServerEventBus();
    const handler = createMcpHandler(
      async ({ era }) => {
        const { instructions } = await source.catalog(quiet);
        return createServer({
          source,
          era,
          version,
          clock,
          finished,
          instructions,
          subscriptions: era === 'modern',
          listChanges: false,
        });
      },
      {
        bus,
        keepAliveMs,
        maxRequestBodySize: bodyBytesMax,
        onerror: (error) => log.debug('mcp over http', { error }),
      },
    );
    open.add(handler);
    const updated = ({ uri, ...params }: { uri: string } & JsonObject) =>
      bus.publish({ kind: 'resource_updated', uri, params });
    if (isListen(request)) {
      listens++;
      const uris = urisOf((parsed as JsonObject | undefined)?.params as JsonObject | undefined);
      watchAll(source, uris, (uri) => updated({ uri }), stop.signal);
    }
    response.once('close', () => {
      if (isListen(request)) listens--;
      open.delete(handler);
    });
    const follow = (uris: string[]) =>
      followTasks(uris, { source, clock, tell: updated }, stop.signal);
    const node = toNodeHandler(withTasks ? turnedOut(handler, follow) : handler, {
      maxRequestBodySize: bodyBytesMax,
      onerror: (error) => log.error('mcp over http failed', { error }),
    });
    await node(request, response, parsed);
  };

  return {
    handle,
    close: async () => {
      await Promise.all([...open].map((handler) => handler.close()));
      open.clear();
    },
  };
}

const quiet = { signal: new AbortController().signal };

const isListen = (request: IncomingMessage): boolean =>
  request.headers['mcp-method'] === 'subscriptions/listen';

/** `/mcp?toolsets=a,b&dialect=c`: the same choice as the front's flags. */
function choiceOf(request: IncomingMessage): ToolChoice {
  const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
  const list = (name: string) =>
    query.getAll(name).flatMap((value) => value.split(',').filter(Boolean));
  return { toolsets: list('toolsets'), dialects: list('dialect') };
}

const isMessage = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The same handler, its events turned on their way out; `follow` is told which tasks were acknowledged. */
function turnedOut(
  handler: McpHttpHandler,
  follow: (uris: string[]) => void,
): Pick<McpHttpHandler, 'fetch'> {
  const frame = /^data: (.*)$/m;
  const turned = (text: string) =>
    text.replace(frame, (_, json: string) => {
      const message = JSON.parse(json) as JsonObject;
      follow(acknowledged(message));
      return `data: ${JSON.stringify(outward(message))}`;
    });
  return {
    fetch: async (request, options) => {
      const response = await handler.fetch(request, options);
      const isStream = response.headers.get('content-type') === 'text/event-stream';
      if (!isStream || !response.body) return response;
      let rest = '';
      const frames = new TransformStream<string, string>({
        transform: (chunk, out) => {
          const parts = (rest + chunk).split('\n\n');
          rest = parts.pop()!;
          for (const part of parts) out.enqueue(`${turned(part)}\n\n`);
        },
      });
      const body = response.body
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(frames)
        .pipeThrough(new TextEncoderStream());
      return new Response(body, response);
    },
  };
}

/** Undefined when it is no JSON or too long: the SDK then answers in the protocol's words. */
async function readJson(request: IncomingMessage, bytesMax: number): Promise<unknown> {
  try {
    return JSON.parse((await readBody(request, { bytesMax })).toString('utf8'));
  } catch {
    return undefined;
  }
}

function refuse(response: ServerResponse, error: unknown): void {
  const { code, message, hint } = callerError(error);
  const text = `${code}: ${message} ${hint}`;
  const fault = { code: ProtocolErrorCode.InvalidParams, message: text };
  sendMessage(response, errorKind(code).http, { jsonrpc: '2.0', id: null, error: fault });
}

function sendMessage(response: ServerResponse, status: number, message: JsonObject): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(message));
}
