// What an operation is. It is defined once; MCP tools, HTTP routes, CLI commands, the OpenAPI document and the
// docs tables are projections of the one list. No face has logic of its own.
import { z } from 'zod';
import { AppError } from './errors.ts';
import { checkInput } from './runtime/input-limits.ts';
import { refuseNul } from './runtime/nul.ts';
import type { Tracer } from './runtime/trace.ts';

/** The language of input and output; tests take it from here, so that theirs is ours. */
export { z };

export const scopes = ['read', 'run', 'worker', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** Who calls. Made by a face from a key or from the private socket, never from the input. */
export interface Caller {
  owner: string;
  scopes: ReadonlySet<Scope>;
  /** Sees and changes everybody's jobs. */
  admin: boolean;
  /** The home's owner over the private socket, or a front acting for them. */
  local: boolean;
  keyId?: string;
  kinds?: readonly string[];
  queues?: readonly string[];
  /** What a key is bound to beyond its owner: a wallet, an endpoint (`wallet:…`, `endpoint:…`). */
  subject?: string;
}

/** Where the caller stands: a front or the CLI tells it, so that jobs run where their user works. */
export interface Origin {
  cwd?: string;
  env?: Record<string, string>;
}

export interface CallContext {
  /** Undefined for a call without a key: only operations with scope `public` accept it. */
  caller: Caller | undefined;
  /** Aborted when the caller goes away. Waiting stops; work that was started goes on. */
  signal: AbortSignal;
  origin?: Origin;
  /** What the answer has room for where a model reads it: what hands out pieces makes them no larger. */
  answerBytesMax?: number;
  /** Set when the caller wants to hear how far a long call is. */
  progress?(update: { progress: number; total?: number; message?: string }): void;
}

export interface Operation<I = unknown, O = unknown> {
  /** verb_noun, snake case: the MCP tool's name; `verb noun` on the command line. */
  name: string;
  title: string;
  /** For a model that has never seen us, at most 600 characters: what it does, when to use it and when not, what it changes, its neighbours. */
  description: string;
  effect: 'read' | 'write' | 'destroy';
  idempotent?: boolean;
  /** Reaches beyond this machine (web, remote endpoints). */
  openWorld?: boolean;
  /** `public`: answers without a key (and then only what is public). */
  scope: Scope | 'public';
  /** MCP toolsets it appears in; none: it is no tool. `default` is what every client sees. */
  toolsets?: readonly string[];
  input: z.ZodType<I>;
  output: z.ZodType<O>;
  /** Its text is not stored and may contain NUL characters. */
  takesNul?: true;
  /** Input fields that an MCP tool only names, to spare every conversation their description. The other faces show them all. */
  rareInput?: readonly string[];
  /**
   * In a cluster the call goes elsewhere. `job`: to the node that has the files of the job named by `id`; `attempt`: to
   * the node that runs it, or nowhere when none does.
   */
  at?: 'job' | 'attempt';
  /** Path under the HTTP root, with {name} for fields of the input; the others come from the query (GET, DELETE) or the JSON body. */
  http?: { method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'; path: string };
  /** One command, or several that each say a part of the input already. */
  cli?: CliShape | readonly CliShape[];
  /** Work that outlives the call: the job to follow, or undefined when this answer is already the end. Gives MCP tasks. */
  startsJob?(output: O): string | undefined;
  /** What the call that started this job would answer now; undefined when it is no job of this operation. The result of MCP tasks. */
  answerFor?(jobId: string, context: CallContext): Promise<O | undefined>;
  /** A few lines that say the same as the output; faces add it beside the structured answer. */
  text?(output: O): string;
  /** Further MCP content of an answer (pictures), beside text and structure. */
  content?(output: O): { type: 'image'; data: string; mimeType: string }[];
  run(input: I, context: CallContext): Promise<O>;
  /** For operations that are followed: `run` answers the present state, `stream` what comes after, over SSE. */
  stream?(input: I, context: CallContext): AsyncIterable<StreamItem>;
}

export interface StreamItem {
  event: string;
  data: unknown;
  /** Content that is no JSON: faces send it as it is where they can, else as `base64` in `data`. Valid until the next item. */
  bytes?: Buffer;
  /** Cursor to go on from after a broken connection (SSE id). */
  id?: string;
}

/** The data of an item as JSON. By hand where there are bytes: a serializer would look at every letter of them again. */
export function itemData({ data, bytes }: Pick<StreamItem, 'data' | 'bytes'>): string {
  if (!bytes) return JSON.stringify(data ?? null);
  return `${itemHead(data)}"base64":"${bytes.toString('base64')}"}`;
}

/** JSON of an object that goes on with one more field. */
export function itemHead(data: unknown): string {
  const json = JSON.stringify(data ?? {});
  return json === '{}' ? '{' : `${json.slice(0, -1)},`;
}

/** A whole item as one line of JSON. */
export function itemLine({ event, id, ...item }: StreamItem): string {
  const head = JSON.stringify({ event, ...(id === undefined ? {} : { id }) });
  return `${head.slice(0, -1)},"data":${itemData(item)}}\n`;
}

export interface CliShape {
  /** Words after `errand`: ['queue', 'list']. */
  words: readonly string[];
  /** Fields of the input taken in order without a flag; the last may be an array and takes the rest. */
  args?: readonly string[];
  /** The last of `args` may be given several times: a call for each. */
  each?: boolean;
  /**
   * Columns for a table when the output has one list; else the fields are printed. `bodies`: texts a row may have that
   * no cell can hold; a row with one is a line with its text below.
   */
  table?: { rows: string; columns: readonly string[]; bodies?: readonly string[] };
  /** A hand-written command of the same words replaces the generated one (it still calls the operation). */
  custom?: boolean;
  /** Fields of the input that the words say already: `errand news` is a search of type news. */
  preset?: Readonly<Record<string, unknown>>;
  /** What the list of commands says of it, where the operation's own title is about more. */
  summary?: string;
  /** The answer as a person reads it, where neither the table nor the text for models will do. */
  text?(output: unknown): string | undefined;
  /** The answer says that it was not all to be had: exit code 1, so that scripts need not read it. */
  isShort?(output: unknown): boolean;
}

export function commandsOf({ cli }: Pick<Operation, 'cli'>): readonly CliShape[] {
  if (cli === undefined) return [];
  return 'words' in cli ? [cli] : cli;
}

/**
 * Keeps the types of input and output tied together while the list holds plain `Operation`s. A field nobody knows is refused:
 * whoever misspells one must hear of it, not get an answer that passed it over.
 */
export function defineOperation<I, O>(operation: Operation<I, O>): Operation {
  const { input } = operation;
  const isPlain = input instanceof z.ZodObject && input.def.catchall === undefined;
  return isPlain ? { ...operation, input: input.strict() } : operation;
}

/** A server of the same cluster, and how it is reached. */
export interface Place {
  node: string;
  url: string;
}

/** Other servers of the same cluster, for operations that say `at`. */
export interface Elsewhere {
  /** Where a call with this input must run; undefined: here. */
  place(input: unknown, at: 'job' | 'attempt'): Promise<Place | undefined>;
  call(place: Place, name: string, input: unknown, context: CallContext): Promise<unknown>;
  stream(
    place: Place,
    name: string,
    input: unknown,
    context: CallContext,
  ): AsyncIterable<StreamItem>;
}

/** The one list. Faces and dialects find operations here by name and call them here only. */
export class Operations {
  private readonly byName = new Map<string, Operation>();
  private readonly kinds = new Map<string, string>();
  elsewhere: Elsewhere | undefined;
  /** Set where the operator wants traces. */
  tracer: Tracer | undefined;

  /** `kind`: whose they are; a key that is limited to kinds calls none of the others. */
  add(operations: readonly Operation[], kind?: string): void {
    for (const operation of operations) {
      if (kind !== undefined) this.kinds.set(operation.name, kind);
      if (this.byName.has(operation.name))
        throw new Error(`operation ${operation.name} is defined twice`);
      this.byName.set(operation.name, operation);
    }
  }

  list(): Operation[] {
    return [...this.byName.values()];
  }

  find(name: string): Operation | undefined {
    return this.byName.get(name);
  }

  get(name: string): Operation {
    const operation = this.byName.get(name);
    if (!operation) throw new AppError('notFound', `There is no operation ${name}.`);
    return operation;
  }

  /** Checks scope and input, then runs. The answer is the operation's own; its shape is checked by tests. */
  async call<O = unknown>(name: string, input: unknown, context: CallContext): Promise<O> {
    const operation = this.get(name);
    if (!this.tracer) return this.perform(operation, input, context);
    const attributes = { 'errand.operation': name, 'errand.effect': operation.effect };
    return this.tracer.call(name, attributes, () => this.perform<O>(operation, input, context));
  }

  private async perform<O>(operation: Operation, input: unknown, context: CallContext): Promise<O> {
    const parsed = this.check(operation, input, context);
    const { elsewhere } = this;
    if (!operation.at || !elsewhere) return (await operation.run(parsed, context)) as O;
    for (let moves = 0; ; moves++) {
      const place = await elsewhere.place(parsed, operation.at);
      if (place !== undefined)
        return (await elsewhere.call(place, operation.name, input, context)) as O;
      try {
        return (await operation.run(parsed, context)) as O;
      } catch (error) {
        if (!hasMoved(error) || moves === movesMax) throw error;
      }
    }
  }

  stream(name: string, input: unknown, context: CallContext): AsyncIterable<StreamItem> {
    const operation = this.get(name);
    if (!operation.stream) throw new AppError('unsupported', `${name} cannot be followed.`);
    const parsed = this.check(operation, input, context);
    const { elsewhere } = this;
    if (!operation.at || !elsewhere) return operation.stream(parsed, context);
    return follow(operation as Following, parsed, { elsewhere, input, context });
  }

  /** What the call that started this job would answer now; for a job that no such operation knows, what get_job answers. */
  async later(jobId: string, context: CallContext): Promise<{ name: string; output: unknown }> {
    for (const operation of this.list()) {
      const { name, scope } = operation;
      if (!operation.answerFor || !mayCall(scope, context.caller, this.kinds.get(name))) continue;
      const output = await operation.answerFor(jobId, context);
      if (output !== undefined) return { name, output };
    }
    const view = await this.call('get_job', { id: jobId, includeResult: true }, context);
    return { name: 'get_job', output: view };
  }

  /** For a call that another server sent here: it is not sent on. */
  async callHere(name: string, input: unknown, context: CallContext): Promise<unknown> {
    const operation = this.get(name);
    const run = async () => operation.run(this.check(operation, input, context), context);
    if (!this.tracer) return run();
    return this.tracer.call(`${name} here`, { 'errand.operation': name }, run);
  }

  streamHere(name: string, input: unknown, context: CallContext): AsyncIterable<StreamItem> {
    const operation = this.get(name);
    if (!operation.stream) throw new AppError('unsupported', `${name} cannot be followed.`);
    return operation.stream(this.check(operation, input, context), context);
  }

  private check(operation: Operation, input: unknown, context: CallContext): unknown {
    authorize(operation, context.caller, this.kinds.get(operation.name));
    checkInput(input);
    const parsed = operation.input.safeParse(input ?? {});
    if (!parsed.success) throw inputError(operation, parsed.error);
    if (!operation.takesNul) refuseNul(operation, parsed.data);
    return parsed.data;
  }
}

type Following = Operation & Required<Pick<Operation, 'stream'>>;

async function* follow(
  operation: Following,
  parsed: unknown,
  call: { elsewhere: Elsewhere; input: unknown; context: CallContext },
): AsyncGenerator<StreamItem> {
  for (let moves = 0; ; moves++) {
    const place = await call.elsewhere.place(parsed, operation.at!);
    if (place !== undefined)
      return yield* call.elsewhere.stream(place, operation.name, call.input, call.context);
    let begun = false;
    try {
      for await (const item of operation.stream(parsed, call.context)) {
        begun = true;
        yield item;
      }
      return;
    } catch (error) {
      // What was told already is not told again.
      if (!hasMoved(error) || begun || moves === movesMax) throw error;
    }
  }
}

/** In the data of an error: the node that has what was looked for here. A job that waits may be taken by any node. */
export const movedTo = 'movedTo';
const movesMax = 3;
const hasMoved = (error: unknown): boolean =>
  error instanceof AppError && error.data?.[movedTo] !== undefined;

function authorize(
  operation: Operation,
  caller: Caller | undefined,
  kind: string | undefined,
): void {
  if (operation.scope === 'public') return;
  if (!caller) {
    throw new AppError('unauthorized', 'This needs a key.', {
      hint: 'Send `Authorization: Bearer <key>`; `errand key create` makes one.',
    });
  }
  if (kind !== undefined && caller.kinds && !caller.kinds.includes(kind)) {
    throw new AppError('forbidden', `The key may not do work of kind ${kind}.`, {
      hint: `It is limited to: ${caller.kinds.join(', ')}.`,
    });
  }
  if (caller.scopes.has(operation.scope) || caller.scopes.has('admin')) return;
  throw new AppError(
    'forbidden',
    `The key has no scope \`${operation.scope}\`, which ${operation.name} needs.`,
    {
      hint: 'Ask for a key with that scope: `errand key create --scopes …`.',
    },
  );
}

function mayCall(
  scope: Operation['scope'],
  caller: Caller | undefined,
  kind: string | undefined,
): boolean {
  if (scope === 'public') return true;
  if (!caller || (kind !== undefined && caller.kinds && !caller.kinds.includes(kind))) return false;
  return caller.scopes.has(scope) || caller.scopes.has('admin');
}

/** What is wrong with the input of an operation or of a dialect's tool, field by field. */
export function inputError(
  { name, input }: { name: string; input: z.ZodType },
  error: z.ZodError,
): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const path = issue.path.join('.');
    return path ? `${path}: ${issue.message}` : issue.message;
  });
  return new AppError('invalidInput', `Wrong input for ${name}: ${issues.join('; ')}`, {
    hint: unknownFieldHint(input, error) ?? 'The input schema names every field and its limits.',
    data: {
      issues: error.issues
        .slice(0, 20)
        .map(({ path, message, code }) => ({ path: path.join('.'), message, code })),
    },
  });
}

/** The same in the words of a dialect, whose callers do not know the fields by our names. */
export function inputErrorAs(
  error: unknown,
  named: (field: string) => string,
  hint: string,
): unknown {
  const found = error instanceof AppError ? error.data?.issues : undefined;
  if (!Array.isArray(found)) return error;
  const issues = (found as { path: string; message: string }[]).map((issue) => {
    const path = issue.path.replace(/^\w+/, named);
    return { ...issue, path };
  });
  const told = issues.slice(0, 5).map(({ path, message }) => `${path || 'body'}: ${message}`);
  return new AppError('invalidInput', `Wrong input: ${told.join('; ')}.`, {
    hint,
    data: { issues },
  });
}

/** What the field may have meant to be, or all there are: a model often sees only this text. */
function unknownFieldHint(input: z.ZodType, error: z.ZodError): string | undefined {
  const wrong = error.issues.find(
    (issue) => issue.code === 'unrecognized_keys' && issue.path.length === 0,
  );
  if (wrong?.code !== 'unrecognized_keys' || !(input instanceof z.ZodObject)) return undefined;
  const fields = Object.keys(input.shape);
  const begins = (one: string, other: string) => one.toLowerCase().startsWith(other.toLowerCase());
  const near = fields.filter((field) =>
    wrong.keys.some((key) => begins(field, key) || begins(key, field)),
  );
  return near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `It takes: ${fields.join(', ')}.`;
}
