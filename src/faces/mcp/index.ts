// The MCP face as the composition root sees it: one object with both mounts, over one list of operations.
import type { Dialect } from '../../dialect.ts';
import type { Caller, Operations, Origin } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { createMcpHttp, type McpHttp } from './http.ts';
import { JobTasks } from './jobs.ts';
import { LocalSource } from './local.ts';
import { createSessions, type Sessions } from './session.ts';
import { ToolTables, type ToolChoice } from './table.ts';

export interface McpFaceOptions {
  operations: Operations;
  dialects: readonly Dialect[];
  /** Who speaks through the private socket: the home's owner. */
  owner: Caller;
  version: string;
  /** Of a call over HTTP. */
  bodyBytesMax: number;
  clock: Clock;
  log: Log;
}

export interface McpFace {
  /** `/mcp`, for any caller. */
  http: McpHttp;
  /** The `upgrade` event of the private socket, for fronts. */
  sessions: Sessions;
}

export function createMcpFace(options: McpFaceOptions): McpFace {
  const { operations, clock, log, version, bodyBytesMax } = options;
  const tables = new ToolTables(operations, options.dialects);
  const jobs = new JobTasks({ operations, clock });
  const source = (caller: Caller | undefined, choice: ToolChoice, origin?: Origin) =>
    new LocalSource({
      tables,
      jobs,
      log,
      caller,
      ...choice,
      ...(origin ? { origin } : {}),
    });
  return {
    http: createMcpHttp({ source, version, bodyBytesMax, clock, log }),
    sessions: createSessions({
      source: (hello) => source(options.owner, hello, hello.origin),
      version,
      log,
    }),
  };
}
