// Defines an operation and the list of all operations. MCP tools, HTTP routes, CLI commands, the OpenAPI document and the docs
// tables are projections of this list. Interfaces contain no logic of their own.
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
import { commandsOf, type CliShape } from './command-shape.ts';
import type { Contract, InputOf, OutputOf } from './contract.ts';
import { AppError } from './errors.ts';
import { callWhereJobIs, followWhereJobIs, type Elsewhere } from './elsewhere.ts';
import { inputError } from './input-error.ts';
import { hasReference, isReference, namingFields, withIds, withUsualNames } from './job-names.ts';
import { withCallerFolder } from './runtime/caller-folder.ts';
import { checkInput } from './runtime/input-limits.ts';
import { isRecord } from './runtime/json.ts';
import { rejectNul } from './runtime/nul.ts';
import type { Tracer } from './runtime/trace.ts';
import type { CallContext, References } from './call-context.ts';
import { notFollowed, type StreamItem } from './stream-item.ts';

/** Re-exported so that tests build schemas with the same zod instance. */
export { z };
export { commandsOf, type CliShape };

export { scopes, isLimited, type Caller, type JobLimits, type Reach, type Scope };
export type { CallContext, Origin, References } from './call-context.ts';
export type { Contract, InputOf, OutputOf, ParsedInputOf } from './contract.ts';
export { movedTo, type Elsewhere, type Place } from './elsewhere.ts';
export { inputError, inputErrorAs } from './input-error.ts';
export { itemData, itemHead, itemLine, type StreamItem } from './stream-item.ts';

export interface Operation<I = unknown, O = unknown> {
  /** Snake-case verb and noun. It is the name of the MCP tool. */
  name: string;
  title: string;
  /**
   * Written for a model that has never seen Errand, at most 600 characters: what the operation does, when to use it and when
   * not, what it changes, and which operations are related.
   */
  description: string;
  effect: 'read' | 'write' | 'destroy';
  idempotent?: boolean;
  /** Contacts other machines (the web, remote endpoints). */
  openWorld?: boolean;
  /** `public` operations need no key and then return public data only. A key without the scope gets the same. */
  scope: Scope | 'public';
  /** What it touches. Without this declaration, keys limited to kinds, queues or a subject may not call it. */
  reach?: Reach<NoInfer<I>>;
  /** MCP toolsets that contain it. An operation without toolsets is not an MCP tool. */
  toolsets?: readonly string[];
  /** Clients that search for tools load it without a search. */
  alwaysLoad?: true;
  input: z.ZodType<I>;
  output: z.ZodType<O>;
  /** Paths of input fields that may contain NUL characters, because they are not stored in a text column. */
  allowsNul?: readonly string[];
  /**
   * Rarely used input fields. An MCP tool lists only their names, to keep its schema small. A shape may follow the name after a
   * space. Other interfaces show the full schema.
   */
  rareInput?: readonly string[];
  /** Input fields that an MCP tool accepts without naming them. */
  unlistedInput?: readonly string[];
  /**
   * Where a cluster runs the call. `job`: on the node that has the files of the job `id`. `attempt`: on the node that runs the
   * job's attempt, or nowhere if no node runs it.
   */
  at?: 'job' | 'attempt';
  /** The HTTP route. `{name}` is an input field. Other fields come from the query (GET, DELETE) or the JSON body. */
  http?: { method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'; path: string };
  /** Called by workers, remotes and other nodes only: not part of the public OpenAPI document. */
  isInternal?: true;
  /** One or more commands. Each may preset a part of the input. */
  cli?: CliShape | readonly CliShape[];
  /** The id of the job that outlives the call, or undefined if the output is final. MCP tasks are built from it. */
  startsJob?(output: O): string | undefined;
  /** The current output of the call that started this job, or undefined if another operation started it. MCP tasks return it. */
  outputFor?(jobId: string, context: CallContext): Promise<O | undefined>;
  /** The output has a cursor. The operation itself observes `maxResponseBytes`; interfaces must not shorten its output. */
  pages?: true;
  /** The part of the output that a model needs for its next decision: the structured content of MCP results. */
  brief?: { schema: z.ZodType; of(output: O, input: Record<string, unknown>): unknown };
  /** The output as a few lines of text, sent along with the structured content. */
  text?(output: O): string;
  /** Additional MCP content, such as images. */
  content?(output: O): { type: 'image'; data: string; mimeType: string }[];
  run(input: I, context: CallContext): Promise<O>;
  /** For operations that can be followed: `run` returns the current state, `stream` yields what happens afterwards. */
  stream?(input: I, context: CallContext): AsyncIterable<StreamItem>;
}

/** Checks that input and output types match `run`. Unknown input fields are rejected. */
export function defineOperation<I, O>(operation: Operation<I, O>): Operation {
  const { input } = operation;
  const isPlain = input instanceof z.ZodObject && input.def.catchall === undefined;
  return isPlain ? { ...operation, input: input.strict() } : operation;
}

interface OperationsHooks {
  /** Checks the jobs that a limited key names. Without it, a limited key may not name any job. */
  jobLimits?: JobLimits;
  /** Resolves job names and id prefixes. */
  references?: References;
  tracer?: Tracer | undefined;
  /** Other servers of the cluster, read at every call. */
  elsewhere?(): Elsewhere | undefined;
}

/** The list of all operations. Interfaces and dialects find and call operations only through it. */
export class Operations {
  private readonly byName = new Map<string, Operation>();
  readonly kinds = new Map<string, string>();
  private readonly namers = new Map<string, readonly string[]>();

  private readonly hooks: OperationsHooks;
  constructor(hooks: OperationsHooks = {}) {
    this.hooks = hooks;
  }

  /** `kind` owns these operations. A key limited to other kinds may not call them. */
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
    if (!operation) throw new AppError('notFound', `Operation ${name} does not exist.`);
    return operation;
  }

  /** Checks scope, limits and input, then runs the operation. Tests check the shape of the output. */
  call<C extends Contract>(
    contract: C,
    input: InputOf<C>,
    context: CallContext,
  ): Promise<OutputOf<C>>;
  /** For interfaces, which pass on the name and the input of their caller. */
  call(name: string, input: unknown, context: CallContext): Promise<unknown>;
  call(called: Contract | string, input: unknown, context: CallContext): Promise<unknown> {
    const name = typeof called === 'string' ? called : called.name;
    const run = () => this.perform(name, input, context);
    const { tracer } = this.hooks;
    return tracer ? this.trace(tracer, name, run) : run();
  }

  private async trace<O>(tracer: Tracer, name: string, run: () => Promise<O>): Promise<O> {
    const { effect } = this.get(name);
    return tracer.call(name, { 'errand.operation': name, 'errand.effect': effect }, run);
  }

  private async perform(name: string, given: unknown, context: CallContext): Promise<unknown> {
    const operation = this.get(name);
    const usual = withUsualNames(given, this.namers.get(name));
    const input = this.isNamed(operation, usual)
      ? await this.withIds(operation, usual, context)
      : usual;
    const { caller } = context;
    const admitted =
      caller && isLimited(caller)
        ? await this.admit(operation, input, context)
        : this.enter(operation, input, context);
    const elsewhere = operation.at && this.hooks.elsewhere?.();
    const folder = operation.effect === 'read' ? undefined : context.origin?.cwd;
    const run = () =>
      elsewhere
        ? callWhereJobIs(operation, { ...admitted, input, elsewhere })
        : operation.run(admitted.parsed, admitted.context);
    try {
      return await withCallerFolder(folder, run);
    } catch (error) {
      throw explained(error, admitted);
    }
  }

  stream(name: string, given: unknown, context: CallContext): AsyncIterable<StreamItem> {
    const operation = this.get(name);
    const input = withUsualNames(given, this.namers.get(name));
    if (this.isNamed(operation, input)) return this.streamNamed(operation, input, context);
    return this.open(operation, input, context, this.hooks.elsewhere?.());
  }

  private async *streamNamed(
    operation: Operation,
    input: Record<string, unknown>,
    context: CallContext,
  ): AsyncGenerator<StreamItem> {
    const resolved = await this.withIds(operation, input, context);
    yield* this.stream(operation.name, resolved, context);
  }

  /** Whether a field names a job by anything but its full id. */
  private isNamed({ name }: Operation, input: unknown): input is Record<string, unknown> {
    const fields = this.hooks.references && this.namers.get(name);
    return fields !== undefined && isRecord(input) && hasReference(input, fields);
  }

  private async withIds(
    operation: Operation,
    input: Record<string, unknown>,
    { caller }: CallContext,
  ): Promise<Record<string, unknown>> {
    const known = this.entered(operation, caller) ? undefined : caller;
    const fields = this.namers.get(operation.name)!;
    return withIds(input, fields, (text) => this.hooks.references!.resolve(text, known));
  }

  /** The current output of the call that started this job, or the output of get_job if no operation recognises the job. */
  async later(named: string, context: CallContext): Promise<{ name: string; output: unknown }> {
    const references = isReference(named) ? this.hooks.references : undefined;
    const jobId = (await references?.resolve(named, context.caller)) ?? named;
    for (const operation of this.list()) {
      const output = await this.outputFor(operation, jobId, context);
      if (output !== undefined) return { name: operation.name, output };
    }
    const view = await this.call('get_job', { id: jobId, includeResult: true }, context);
    return { name: 'get_job', output: view };
  }

  /** The same for one operation: undefined if it did not start the job or if the caller may not call it. */
  async outputFor(operation: Operation, jobId: string, context: CallContext): Promise<unknown> {
    const { caller } = context;
    if (!operation.outputFor || !caller || !this.mayCall(operation.name, caller)) return undefined;
    if (isLimited(caller)) await this.hooks.jobLimits?.require(jobId, caller);
    return operation.outputFor(jobId, context);
  }

  /** Whether there is any input with which the caller may call the operation. */
  mayCall(name: string, caller: Caller | undefined): boolean {
    const operation = this.get(name);
    if (operation.scope === 'public') return true;
    return refusal(operation, this.kinds.get(name), caller) === undefined;
  }

  /** Runs a call that another node forwarded. It is never forwarded again. */
  async callHere(name: string, input: unknown, context: CallContext): Promise<unknown> {
    const operation = this.get(name);
    const run = async () => {
      const admitted = await this.admit(operation, input, context);
      return operation.run(admitted.parsed, admitted.context);
    };
    if (!this.hooks.tracer) return run();
    return this.hooks.tracer.call(`${name} here`, { 'errand.operation': name }, run);
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
    const { stream } = operation;
    const followed = (admitted: Admitted) =>
      operation.at && elsewhere
        ? followWhereJobIs({ ...operation, stream }, { ...admitted, input, elsewhere })
        : stream(admitted.parsed, admitted.context);
    const { caller } = context;
    if (!caller || !isLimited(caller)) return followed(this.enter(operation, input, context));
    const admit = () => this.admit(operation, input, context);
    return (async function* () {
      yield* followed(await admit());
    })();
  }

  /** Runs every check that precedes an operation. */
  private async admit(
    operation: Operation,
    input: unknown,
    context: CallContext,
  ): Promise<Admitted> {
    const admitted = this.enter(operation, input, context);
    const { caller } = admitted.context;
    if (!caller || !isLimited(caller)) return admitted;
    try {
      await checkReach(operation, admitted.parsed, caller, this.hooks.jobLimits);
      return admitted;
    } catch (error) {
      if (operation.scope !== 'public' || !(error instanceof AppError)) throw error;
      return withoutKey(admitted, error);
    }
  }

  /** Throws if the caller may never call the operation. Returns the reason why a public operation ignores the caller's key. */
  private entered(operation: Operation, caller: Caller | undefined): AppError | undefined {
    const isPublic = operation.scope === 'public';
    if (isPublic && !caller) return undefined;
    const refused = refusal(operation, this.kinds.get(operation.name), caller);
    if (refused && !isPublic) throw refused;
    return refused;
  }

  /** The checks that need no stored data: scope, kind, declared limits, the shape of the input. */
  private enter(operation: Operation, input: unknown, context: CallContext): Admitted {
    const refused = this.entered(operation, context.caller);
    checkInput(input);
    const parsed = operation.input.safeParse(input ?? {});
    if (!parsed.success) throw inputError(operation, parsed.error);
    rejectNul(operation, parsed.data);
    const admitted = { parsed: parsed.data, context };
    return refused ? withoutKey(admitted, refused) : admitted;
  }
}

/** A call that passed all checks. */
interface Admitted {
  parsed: unknown;
  context: CallContext;
  /** Why the caller's key is ignored. The call then runs as a call without a key. */
  reason?: AppError;
}

const withoutKey = ({ parsed, context }: Admitted, reason: AppError): Admitted => ({
  parsed,
  context: { ...context, caller: undefined },
  reason,
});

/** If the key was ignored and nothing was found, the key's limits are the actual cause: report those. */
function explained(error: unknown, { reason }: Admitted): unknown {
  const isAbsent = error instanceof AppError && absentCodes.has(error.code);
  return reason && isAbsent ? reason : error;
}

const absentCodes = new Set(['notFound', 'unauthorized']);
