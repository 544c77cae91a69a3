// Where an MCP server gets what it serves. The protocol side (server.ts) knows only this contract; one source works
// in the process that holds the operations (local.ts), one over the private socket (remote.ts).
import { nextOf, type ErrorBody } from '../../errors.ts';

/** A tool as clients see it: JSON only, made where the operations are. */
export interface ToolCard {
  name: string;
  title: string;
  description: string;
  inputSchema: JsonObject;
  outputSchema?: JsonObject;
  annotations: {
    readOnlyHint: boolean;
    destructiveHint: boolean;
    idempotentHint: boolean;
    openWorldHint: boolean;
  };
  /** A call of it may become a task. */
  startsJob?: true;
}

export type JsonObject = Record<string, unknown>;

export interface Catalog {
  tools: ToolCard[];
  /** Answered, but not listed: a client may still hold a list from before. */
  unlisted?: ToolCard[];
  instructions: string;
  /** Why no server can be reached. A call of any tool fails with this reason. */
  unreachable?: ErrorBody;
}

/** What a call was answered, before it has the form of one protocol generation. */
export interface Answer {
  structured?: unknown;
  /** Defaults to the JSON of `structured`. */
  text?: string;
  content?: JsonObject[];
  isError?: boolean;
  /** Work goes on under this id; undefined when the answer is the end. */
  jobId?: string;
  /** A result that is already in protocol form and is passed on as it is. */
  raw?: JsonObject;
}

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

export const isOver = (status: TaskStatus): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled';

/** A job, seen as a task. */
export interface TaskState {
  id: string;
  status: TaskStatus;
  message?: string;
  createdAt: string;
  updatedAt: string;
  /** What the call would have answered; set once the task is over. */
  answer?: Answer;
  /** Only for `failed`: the call itself broke (a tool that failed is `completed`). */
  error?: { code: number; message: string };
  inputRequests?: JsonObject;
}

export interface ResourceCard {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
}

export interface ResourceTemplateCard {
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
  /** `traceparent` that the client sent with the request itself; over HTTP the header's counts where there is none. */
  trace?: string;
  /** The protocol's own context of the request, for sources in the same process that speak it (elicitation). */
  protocol?: unknown;
}

/** Every method takes and gives JSON, so that a socket can stand in between. Unknown ids answer undefined. */
export interface Source {
  catalog(call: SourceCall): Promise<Catalog>;
  call(name: string, args: JsonObject, call: SourceCall): Promise<Answer>;
  /** The same as JSON in protocol form, where that is cheaper than making it from the answer. */
  rawCall?(name: string, args: JsonObject, call: SourceCall): Promise<string>;

  task(id: string, call: SourceCall): Promise<TaskState | undefined>;
  /** Answers when the task is over, or with its present state when the signal aborts. */
  settledTask(id: string, call: SourceCall): Promise<TaskState | undefined>;
  cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined>;
  tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>>;
  /** Answers to `inputRequests`; false: unknown task. */
  answerTask?(id: string, responses: JsonObject, call: SourceCall): Promise<boolean>;

  resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceCard>>;
  resourceTemplates(): ResourceTemplateCard[];
  read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined>;
  complete(
    uriTemplate: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]>;
  /** Calls back at each change of the resource until the signal aborts. */
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

/** Answer of a call that failed for a reason the caller should read: `code: message`, then what to do. */
export function errorAnswer(error: { code: string; message: string; hint?: string }): Answer {
  return { text: `${error.code}: ${error.message}\n${error.hint ?? nextOf(error)}`, isError: true };
}
