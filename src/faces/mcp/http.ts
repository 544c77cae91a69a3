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
import { AppError, errorBody, errorKind } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { readBody } from '../../runtime/wire.ts';
import { urisOf, watchAll } from './listen.ts';
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
      if (isListen(request) && listens >= listensMax)
        throw new AppError('limitExceeded', `More than ${listensMax} clients listen.`);
    } catch (error) {
      return refuse(response, error);
    }
    const parsed = isListen(request) ? await readJson(request, bodyBytesMax) : undefined;
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
    const stop = new AbortController();
    if (isListen(request)) {
      listens++;
      const uris = urisOf((parsed as JsonObject | undefined)?.params as JsonObject | undefined);
      watchAll(source, uris, (uri) => bus.publish({ kind: 'resource_updated', uri }), stop.signal);
    }
    response.once('close', () => {
      if (isListen(request)) listens--;
      stop.abort();
      open.delete(handler);
    });
    const node = toNodeHandler(handler, {
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

/** Undefined when it is no JSON or too long: the SDK then answers in the protocol's words. */
async function readJson(request: IncomingMessage, bytesMax: number): Promise<unknown> {
  try {
    return JSON.parse((await readBody(request, { bytesMax })).toString('utf8'));
  } catch {
    return undefined;
  }
}

function refuse(response: ServerResponse, error: unknown): void {
  const { code, message, hint } = errorBody(error);
  const text = `${code}: ${message}${hint ? ` ${hint}` : ''}`;
  response.writeHead(errorKind(code).http, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify({
      jsonrpc: '2.0',
      id: null,
      error: { code: ProtocolErrorCode.InvalidParams, message: text },
    }),
  );
}
