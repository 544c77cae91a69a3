// What an operation is. It is defined once; MCP tools, HTTP routes, CLI commands, the OpenAPI document and the
// docs tables are projections of the one list. No face has logic of its own.
import { z } from 'zod';
import {
  checkReach,
  isLimited,
  refusal,
  scopes,
  type Caller,
  type JobLimits,
  type Reach,
  type Scope,
} from './authorization.ts';
import type { CliShape } from './command-shape.ts';
import { AppError } from './errors.ts';
import { inputError } from './input-error.ts';
import { hasReference, isReference, namingFields, withIds } from './job-names.ts';
import { checkInput } from './runtime/input-limits.ts';
import { isRecord } from './runtime/json.ts';
import { refuseNul } from './runtime/nul.ts';
import type { Tracer } from './runtime/trace.ts';
import { notFollowed, type StreamItem } from './stream-item.ts';

/** The language of input and output; tests take it from here, so that theirs is ours. */
export { z };
export type { CliShape };

export { scopes, isLimited, type Caller, type JobLimits, type Reach, type Scope };
export { inputError, inputErrorAs } from './input-error.ts';
export { itemData, itemHead, itemLine, type StreamItem } from './stream-item.ts';

/** Where the caller stands: a front or the CLI tells it, so that jobs run where their user works. */
export interface Origin {
  cwd?: string;
  env?: Record<string, string>;
}

/** Finds the one job that is meant, with the caller's rights. */
export interface References {
  resolve(text: string, caller: Caller | undefined): Promise<string>;
}

export interface CallContext {
  /** Undefined for a call without a key: only operations with scope `public` accept it. */
  caller: Caller | undefined;
  /** Aborted when the caller goes away. Waiting stops; work that was started goes on. */
  signal: AbortSignal;
  origin?: Origin;
  /** What the answer has room for where a model reads it: what hands out pieces makes them no larger. */
  answerBytesMax?: number;
  /** The owner said on the command line of this machine that addresses named in this call may be private. */
  allowPrivate?: true;
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
  /** `public`: answers without a key (and then only what is public); a key without the scope gets that much. */
  scope: Scope | 'public';
  /** What it touches. An operation without it is closed to keys that are limited to kinds, queues or a subject. */
  reach?: Reach<NoInfer<I>>;
  /** MCP toolsets it appears in; none: it is no tool. `default` is what every client sees. */
  toolsets?: readonly string[];
  input: z.ZodType<I>;
  output: z.ZodType<O>;
  /** Paths of input fields whose text may contain NUL characters: it is not stored in a text column. */
  takesNul?: readonly string[];
  /** Input fields that an MCP tool only names, to spare every conversation their description; a shape may follow the name after a space. The other faces show them all. */
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
  /** Looks up the jobs that a limited key names. Without it such a key may name none. */
  jobLimits: JobLimits | undefined;
  /** Set where the operator wants traces. */
  tracer: Tracer | undefined;
  /** Set where jobs may be named otherwise than by their id. */
  references: References | undefined;
  private readonly namers = new Map<string, readonly string[]>();

  /** `kind`: whose they are; a key that is limited to kinds calls none of the others. */
  add(operations: readonly Operation[], kind?: string): void {
    for (const operation of operations) {
      if (kind !== undefined) this.kinds.set(operation.name, kind);
      if (this.byName.has(operation.name))
        throw new Error(`operation ${operation.name} is defined twice`);
      this.byName.set(operation.name, operation);
      const fields = namingFields(operation.input);
      if (fields.length > 0) this.namers.set(operation.name, fields);
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

  private async perform<O>(operation: Operation, given: unknown, context: CallContext): Promise<O> {
    const input = this.isNamed(operation, given)
      ? await this.withIds(operation, given, context)
      : given;
    const admitted = await this.admit(operation, input, context);
    try {
      return (await this.runThere(operation, input, admitted)) as O;
    } catch (error) {
      throw explained(error, admitted);
    }
  }

  private async runThere(
    operation: Operation,
    input: unknown,
    { parsed, context }: Admitted,
  ): Promise<unknown> {
    const { elsewhere } = this;
    if (!operation.at || !elsewhere) return operation.run(parsed, context);
    for (let moves = 0; ; moves++) {
      const place = await elsewhere.place(parsed, operation.at);
      if (place !== undefined) return elsewhere.call(place, operation.name, input, context);
      try {
        return await operation.run(parsed, context);
      } catch (error) {
        if (!hasMoved(error) || moves === movesMax) throw error;
      }
    }
  }

  stream(name: string, input: unknown, context: CallContext): AsyncIterable<StreamItem> {
    const operation = this.get(name);
    if (this.isNamed(operation, input)) return this.streamNamed(operation, input, context);
    return this.open(operation, input, context, this.elsewhere);
  }

  private async *streamNamed(
    operation: Operation,
    input: Record<string, unknown>,
    context: CallContext,
  ): AsyncGenerator<StreamItem> {
    const resolved = await this.withIds(operation, input, context);
    yield* this.stream(operation.name, resolved, context);
  }

  /** Whether a field names a job by something else than a whole id. */
  private isNamed({ name }: Operation, input: unknown): input is Record<string, unknown> {
    const fields = this.references && this.namers.get(name);
    return fields !== undefined && isRecord(input) && hasReference(input, fields);
  }

  private async withIds(
    operation: Operation,
    input: Record<string, unknown>,
    { caller }: CallContext,
  ): Promise<Record<string, unknown>> {
    const known = this.entered(operation, caller) ? undefined : caller;
    const fields = this.namers.get(operation.name)!;
    return withIds(input, fields, (text) => this.references!.resolve(text, known));
  }

  /** What the call that started this job would answer now; for a job that no such operation knows, what get_job answers. */
  async later(named: string, context: CallContext): Promise<{ name: string; output: unknown }> {
    const jobId =
      this.references && isReference(named)
        ? await this.references.resolve(named, context.caller)
        : named;
    for (const operation of this.list()) {
      const output = await this.answerFor(operation, jobId, context);
      if (output !== undefined) return { name: operation.name, output };
    }
    const view = await this.call('get_job', { id: jobId, includeResult: true }, context);
    return { name: 'get_job', output: view };
  }

  /** The same of one operation; undefined when it did not start the job, or when the caller may not call it. */
  async answerFor(operation: Operation, jobId: string, context: CallContext): Promise<unknown> {
    const { caller } = context;
    if (!operation.answerFor || !caller || !this.mayCall(operation.name, caller)) return undefined;
    if (isLimited(caller)) await this.jobLimits?.require(jobId, caller);
    return operation.answerFor(jobId, context);
  }

  /** Whether the caller may call it with any input at all. */
  mayCall(name: string, caller: Caller | undefined): boolean {
    const operation = this.get(name);
    if (operation.scope === 'public') return true;
    return refusal(operation, this.kinds.get(name), caller) === undefined;
  }

  /** For a call that another server sent here: it is not sent on. */
  async callHere(name: string, input: unknown, context: CallContext): Promise<unknown> {
    const operation = this.get(name);
    const run = async () => {
      const admitted = await this.admit(operation, input, context);
      return operation.run(admitted.parsed, admitted.context);
    };
    if (!this.tracer) return run();
    return this.tracer.call(`${name} here`, { 'errand.operation': name }, run);
  }

  streamHere(name: string, input: unknown, context: CallContext): AsyncIterable<StreamItem> {
    return this.open(this.get(name), input, context);
  }

  private open(
    operation: Operation,
    input: unknown,
    context: CallContext,
    elsewhere?: Elsewhere,
  ): AsyncIterable<StreamItem> {
    if (!operation.stream) throw notFollowed(operation.name);
    const following = operation as Following;
    const followed = (admitted: Admitted) =>
      operation.at && elsewhere
        ? follow(following, admitted.parsed, { elsewhere, input, context: admitted.context })
        : following.stream(admitted.parsed, admitted.context);
    const { caller } = context;
    if (!caller || !isLimited(caller)) return followed(this.enter(operation, input, context));
    const admit = () => this.admit(operation, input, context);
    return (async function* () {
      yield* followed(await admit());
    })();
  }

  /** Everything that is checked before an operation runs. */
  private async admit(
    operation: Operation,
    input: unknown,
    context: CallContext,
  ): Promise<Admitted> {
    const admitted = this.enter(operation, input, context);
    const { caller } = admitted.context;
    if (!caller || !isLimited(caller)) return admitted;
    try {
      await checkReach(operation, admitted.parsed, caller, this.jobLimits);
      return admitted;
    } catch (error) {
      if (operation.scope !== 'public' || !(error instanceof AppError)) throw error;
      return withoutKey(admitted, error);
    }
  }

  /** Throws when the caller may never call it. Returns why a public operation ignores the key of the caller. */
  private entered(operation: Operation, caller: Caller | undefined): AppError | undefined {
    const isPublic = operation.scope === 'public';
    if (isPublic && !caller) return undefined;
    const refused = refusal(operation, this.kinds.get(operation.name), caller);
    if (refused && !isPublic) throw refused;
    return refused;
  }

  /** What needs no look at stored things: scope, kind, declared limits, the form of the input. */
  private enter(operation: Operation, input: unknown, context: CallContext): Admitted {
    const refused = this.entered(operation, context.caller);
    checkInput(input);
    const parsed = operation.input.safeParse(input ?? {});
    if (!parsed.success) throw inputError(operation, parsed.error);
    refuseNul(operation, parsed.data);
    const admitted = { parsed: parsed.data, context };
    return refused ? withoutKey(admitted, refused) : admitted;
  }
}

/** A call that may run: its checked input, and the context it runs in. */
interface Admitted {
  parsed: unknown;
  context: CallContext;
  /** Why the key of the call does not count for it: it is answered as a call without a key. */
  reason?: AppError;
}

const withoutKey = ({ parsed, context }: Admitted, reason: AppError): Admitted => ({
  parsed,
  context: { ...context, caller: undefined },
  reason,
});

/** What is absent without a key may be there with a better one: the limits of the key are the cause then. */
function explained(error: unknown, { reason }: Admitted): unknown {
  const isAbsent = error instanceof AppError && absentCodes.has(error.code);
  return reason && isAbsent ? reason : error;
}

const absentCodes = new Set(['notFound', 'unauthorized']);

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
