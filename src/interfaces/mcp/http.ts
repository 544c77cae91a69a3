// MCP over Streamable HTTP. It is stateless: every request is complete, so any node can serve it. The HTTP interface mounts
// this handler and checks Host, Origin and key first.
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
import { parseLosslessJson, utf8Text } from '../../runtime/json.ts';
import type { Log } from '../../runtime/log.ts';
import { readBody } from '../../runtime/wire.ts';
import { resourceUris, watchAll } from './listen.ts';
import { parseMessage, textOfError } from './message.ts';
import {
  acknowledgedUris,
  requestsTasks,
  followTasks,
  rewriteIncoming,
  rewriteOutgoing,
} from './task-listen.ts';
import { createServer } from './server.ts';
import type { JsonObject, Source } from './source.ts';
import { FinishedTasks } from './tasks.ts';
import type { ToolSelection } from './toolsets.ts';

export interface McpHttpOptions {
  /** Returns a source for this caller; throws an AppError if the selection cannot be served. */
  source(caller: Caller | undefined, selection: ToolSelection): Source;
  version: string;
  /** Larger bodies are rejected. */
  maxBodyBytes: number;
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

const maxListens = 1024;
/** Interval of comments on quiet streams, so that proxies keep them open. */
const keepAliveMs = 15_000;

export function createMcpHttp(options: McpHttpOptions): McpHttp {
  const { clock, log } = options;
  // The SDK does not accept a limit of 0.
  const maxBodyBytes = Math.max(1, options.maxBodyBytes);
  const finished = new FinishedTasks(clock);
  const open = new Set<McpHttpHandler>();
  let listens = 0;

  const handle: McpHttp['handle'] = async (request, response, caller) => {
    let source: Source;
    let parsed: unknown;
    try {
      source = options.source(caller, toolSelection(request));
      if (isListen(request) && listens >= maxListens)
        throw new AppError('limitExceeded', `${maxListens} clients are already listening.`);
      // Read here because the SDK rounds large integers, and because it closes the connection of a body that is too large
      // before the client has sent it and can read the reason.
      if (request.method === 'POST') parsed = await readJson(request, maxBodyBytes);
    } catch (error) {
      return sendError(response, error);
    }
    const stop = new AbortController();
    response.once('close', () => stop.abort());
    let withTasks = false;
    if (isListen(request) && isMessage(parsed) && requestsTasks(parsed)) {
      const rewritten = await rewriteIncoming(parsed, source, stop.signal);
      if ('response' in rewritten) return sendMessage(response, 400, rewritten.response);
      parsed = rewritten.pass;
      withTasks = true;
    }
    const bus = new InMemoryServerEventBus();
    const handler = createHandler({ ...options, maxBodyBytes }, finished, source, bus);
    open.add(handler);
    const updated = ({ uri, ...params }: { uri: string } & JsonObject) =>
      bus.publish({ kind: 'resource_updated', uri, params });
    if (isListen(request)) {
      listens++;
      const uris = resourceUris(
        (parsed as JsonObject | undefined)?.params as JsonObject | undefined,
      );
      watchAll(source, uris, (uri) => updated({ uri }), stop.signal);
    }
    response.once('close', () => {
      if (isListen(request)) listens--;
      open.delete(handler);
    });
    const follow = (uris: string[]) =>
      followTasks(uris, { source, clock, notify: updated }, stop.signal);
    const node = toNodeHandler(withTasks ? rewriteEvents(handler, follow) : handler, {
      maxRequestBodySize: maxBodyBytes,
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

function createHandler(
  { version, clock, log, maxBodyBytes }: McpHttpOptions,
  finished: FinishedTasks,
  source: Source,
  bus: InMemoryServerEventBus,
): McpHttpHandler {
  return createMcpHandler(
    async ({ era }) => {
      const { instructions } = await source.catalog(notCancellable);
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
      maxRequestBodySize: maxBodyBytes,
      onerror: (error) => log.debug('mcp over http', { error }),
    },
  );
}

const notCancellable = { signal: new AbortController().signal };

const isListen = (request: IncomingMessage): boolean =>
  request.headers['mcp-method'] === 'subscriptions/listen';

/** `/mcp?toolsets=a,b&dialect=c` selects the same tools as the bridge flags. */
function toolSelection(request: IncomingMessage): ToolSelection {
  const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
  const list = (name: string) =>
    query.getAll(name).flatMap((value) => value.split(',').filter(Boolean));
  return { toolsets: list('toolsets'), dialects: list('dialect') };
}

const isMessage = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Wraps the handler so that outgoing events are rewritten; `follow` receives the acknowledged task URIs. */
function rewriteEvents(
  handler: McpHttpHandler,
  follow: (uris: string[]) => void,
): Pick<McpHttpHandler, 'fetch'> {
  const dataLine = /^data: (.*)$/m;
  const rewriteEvent = (text: string) =>
    text.replace(dataLine, (_, json: string) => {
      const message = parseLosslessJson(json) as JsonObject;
      follow(acknowledgedUris(message));
      return `data: ${JSON.stringify(rewriteOutgoing(message))}`;
    });
  return {
    fetch: async (request, options) => {
      const response = await handler.fetch(request, options);
      const isStream = response.headers.get('content-type') === 'text/event-stream';
      if (!isStream || !response.body) return response;
      let rest = '';
      const rewriter = new TransformStream<string, string>({
        transform: (chunk, out) => {
          const parts = (rest + chunk).split('\n\n');
          rest = parts.pop()!;
          for (const part of parts) out.enqueue(`${rewriteEvent(part)}\n\n`);
        },
      });
      const body = response.body
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(rewriter)
        .pipeThrough(new TextEncoderStream());
      return new Response(body, response);
    },
  };
}

/** Returns undefined when the body is not JSON: the SDK then sends the protocol error. */
async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const body = await readBody(request, { maxBytes, setting: 'http.maxBodyBytes' });
  const text = utf8Text(body);
  try {
    return parseMessage(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function sendError(response: ServerResponse, error: unknown): void {
  const protocolError = { code: ProtocolErrorCode.InvalidParams, message: textOfError(error) };
  const { http } = errorKind(callerError(error).code);
  sendMessage(response, http, { jsonrpc: '2.0', id: null, error: protocolError });
}

function sendMessage(response: ServerResponse, status: number, message: JsonObject): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(message));
}
