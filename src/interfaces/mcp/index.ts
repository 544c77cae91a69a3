// The public exports of the MCP interface: one object that serves HTTP clients and stdio bridges from the same operations.
import type { Dialect } from '../../dialect.ts';
import type { Caller, Operations, Origin } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { McpHttp, McpHttpOptions } from './http.ts';
import { JobTasks } from './jobs.ts';
import { LocalSource } from './local.ts';
import { createSessions, type Sessions } from './session.ts';
import { ToolRegistry, type ToolSelection } from './toolsets.ts';

interface McpInterfaceOptions {
  operations: Operations;
  dialects: readonly Dialect[];
  /** The URL of the HTTP interface; undefined while the server only listens on its private socket. */
  baseUrl?: () => string | undefined;
  /** The caller of requests over the private socket: the owner of the home. */
  owner: Caller;
  version: string;
  /** Largest request body over HTTP. */
  maxBodyBytes: number;
  clock: Clock;
  log: Log;
}

export interface McpInterface {
  /** `/mcp`, for any caller. */
  http: McpHttp;
  /** Handles the `upgrade` event of the private socket, for bridges. */
  sessions: Sessions;
}

export function createMcpInterface(options: McpInterfaceOptions): McpInterface {
  const { operations, clock, log, version, maxBodyBytes } = options;
  const registry = new ToolRegistry(operations, options.dialects, options.baseUrl);
  const jobs = new JobTasks({ operations, clock });
  const source = (caller: Caller | undefined, selection: ToolSelection, origin?: Origin) =>
    new LocalSource({
      registry,
      jobs,
      log,
      caller,
      ...selection,
      ...(origin ? { origin } : {}),
    });
  return {
    http: lazyHttp({ source, version, maxBodyBytes, clock, log }),
    sessions: createSessions({
      source: (hello) => source(options.owner, hello, hello.origin),
      version,
      log,
    }),
  };
}

/** Loads the SDK on the first HTTP request: most clients use a bridge, which loads the SDK in its own process. */
function lazyHttp(options: McpHttpOptions): McpHttp {
  let loaded: Promise<McpHttp> | undefined;
  const load = () =>
    (loaded ??= import('./http.ts').then(({ createMcpHttp }) => createMcpHttp(options)));
  return {
    handle: async (request, response, caller) => (await load()).handle(request, response, caller),
    close: async () => (await loaded)?.close(),
  };
}
