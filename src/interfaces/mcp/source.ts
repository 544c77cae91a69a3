// The contract between the MCP server (server.ts) and the data it serves. One implementation runs in the server process
// (local.ts), the other one forwards over the private socket (remote.ts).
import { nextOf, type ErrorBody } from '../../errors.ts';

/** A tool as clients see it: plain JSON, created in the server process. */
export interface ToolDefinition {
  name: string;
  title: string;
  description: string;
  inputSchema: JsonObject;
  outputSchema?: JsonObject;
  annotations: {
    readOnlyHint: boolean;
    destructiveHint?: boolean;
    idempotentHint?: boolean;
    openWorldHint: boolean;
  };
  /** A call may become a task. */
  startsJob?: true;
  _meta?: JsonObject;
}

export type JsonObject = Record<string, unknown>;

export interface Catalog {
  tools: ToolDefinition[];
  /** Callable but not listed: a client may still use an earlier list. */
  unlisted?: ToolDefinition[];
  instructions: string;
  /** Hint for calls of a tool that is not in this list. */
  missingToolHint?: string;
  /** The reason why no server is reachable. Every tool call fails with it. */
  unreachable?: ErrorBody;
}

/** The result of a tool call, independent of the protocol revision. */
export interface ToolResult {
  structured?: unknown;
  /** Defaults to the JSON of `structured`. */
  text?: string;
  content?: JsonObject[];
  isError?: boolean;
  /** The job that is still running; undefined when the result is final. */
  jobId?: string;
  /** A result that is already in MCP format and is forwarded unchanged. */
  raw?: JsonObject;
}

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

export const isOver = (status: TaskStatus): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled';

/** A job as an MCP task. */
export interface TaskState {
  id: string;
  status: TaskStatus;
  message?: string;
  createdAt: string;
  updatedAt: string;
  /** What the call would have returned; set once the task is over. */
  result?: ToolResult;
  /** Only for `failed`: the call itself failed. A task whose tool reported a failure is `completed`. */
  error?: { code: number; message: string };
  inputRequests?: JsonObject;
}

export interface ResourceDefinition {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
}

export interface ResourceTemplate {
  uriTemplate: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
}

export interface ResourceContent {
  uri: string;
  mimeType?: string;
  text?: string;
  blob?: string;
}

export interface Page<T> {
  items: T[];
  nextCursor?: string;
}

export interface ProgressUpdate {
  progress: number;
  total?: number;
  message?: string;
}

export interface SourceCall {
  signal: AbortSignal;
  progress?(update: ProgressUpdate): void;
  /** The `traceparent` in the request's `_meta`. Over HTTP, the header applies if this is missing. */
  trace?: string;
  /** The SDK's request context, for sources in the same process that use it (elicitation). */
  protocol?: unknown;
}

/** All parameters and results are JSON, so that they can cross a socket. Methods return undefined for unknown ids. */
export interface Source {
  catalog(call: SourceCall): Promise<Catalog>;
  call(name: string, args: JsonObject, call: SourceCall): Promise<ToolResult>;
  /** The same as MCP JSON, where that is cheaper than converting the result. */
  rawCall?(name: string, args: JsonObject, call: SourceCall): Promise<string>;

  task(id: string, call: SourceCall): Promise<TaskState | undefined>;
  /** Returns when the task is over, or its current state when the signal aborts. */
  settledTask(id: string, call: SourceCall): Promise<TaskState | undefined>;
  cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined>;
  tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>>;
  /** Submits responses to `inputRequests`; returns false for an unknown task. */
  submitTaskInput?(id: string, responses: JsonObject, call: SourceCall): Promise<boolean>;

  resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceDefinition>>;
  resourceTemplates(): ResourceTemplate[];
  read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined>;
  complete(
    uriTemplate: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]>;
  /** Calls `changed` at each change of the resource until the signal aborts. */
  watch(uri: string, changed: () => void, signal: AbortSignal): Promise<void>;

  prompts?: PromptSource;
}

export interface PromptSource {
  list(): JsonObject[];
  get(
    name: string,
    args: Record<string, string>,
    call: SourceCall,
  ): Promise<JsonObject | undefined>;
  complete(name: string, argument: string, prefix: string): Promise<string[]>;
}

/** The result of a failed call: `code: message`, then what to do next. */
export function errorResult(error: { code: string; message: string; hint?: string }): ToolResult {
  return { text: `${error.code}: ${error.message}\n${error.hint ?? nextOf(error)}`, isError: true };
}
