// Both versions of MCP tasks, based on the same jobs: the 2026-07-28 extension (the server decides, clients poll tasks/get)
// and the experimental 2025-11-25 feature (the client requests a task with `params.task` and blocks on tasks/result).
import { randomUUID } from 'node:crypto';
import {
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  RELATED_TASK_META_KEY,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import { followTask } from './task-follow.ts';
import {
  anySchema,
  declaresTasks,
  toSourceCall,
  toCallToolResult,
  tasksExtension,
} from './protocol.ts';
import {
  isOver,
  type ToolResult,
  type JsonObject,
  type Source,
  type SourceCall,
  type TaskState,
} from './source.ts';

const pollMs = 1000;
const slowPollMs = 5000;
/** Tasks older than this are polled less often. */
const slowPollAfterMs = 60_000;

interface TaskOptions {
  source: Source;
  clock: Clock;
  finished: FinishedTasks;
}

export function installModernTasks(server: Server, { source, clock }: TaskOptions): void {
  const known = async (params: JsonObject, ctx: ServerContext) => {
    requireTasks(ctx);
    const id = taskIdOf(params);
    return requireTask(id, await source.task(id, toSourceCall(ctx)));
  };
  server.setRequestHandler('tasks/get', { params: anySchema }, async (params, ctx) => {
    return detailedTask(await known(params, ctx), clock);
  });
  server.setRequestHandler('tasks/update', { params: anySchema }, async (params, ctx) => {
    const state = await known(params, ctx);
    const responses = (ctx.mcpReq.inputResponses ?? {}) as JsonObject;
    await source.submitTaskInput?.(state.id, responses, toSourceCall(ctx));
    return {};
  });
  server.setRequestHandler('tasks/cancel', { params: anySchema }, async (params, ctx) => {
    const state = await known(params, ctx);
    if (!isOver(state.status)) await source.cancelTask(state.id, toSourceCall(ctx));
    return {};
  });
}

/** Returns the task as the call's result when the job is still running; undefined when it is already over. */
export async function createTaskResult(source: Source, id: string, call: SourceCall, clock: Clock) {
  const state = await source.task(id, call);
  if (!state || state.result || state.error) return undefined;
  return { resultType: 'task', ...modernTask(state, clock) };
}

function requireTasks(ctx: ServerContext): void {
  if (!declaresTasks(ctx)) throw missingTasks();
}

export const missingTasks = (): ProtocolError =>
  new MissingRequiredClientCapabilityError({
    requiredCapabilities: { extensions: { [tasksExtension]: {} } },
  });

const modernTask = (state: TaskState, clock: Clock): JsonObject => ({
  ...taskFields(state),
  ttlMs: null,
  pollIntervalMs: pollInterval(state, clock),
});

/** The complete task state, for polled and pushed updates. */
export const detailedTask = (state: TaskState, clock: Clock): JsonObject => ({
  ...modernTask(state, clock),
  ...detail(state),
});

function detail(state: TaskState): JsonObject {
  if (state.status === 'completed' && state.result)
    return { result: { resultType: 'complete', ...toCallToolResult(state.result) } };
  if (state.status === 'failed') return { error: state.error };
  if (state.status === 'input_required') return { inputRequests: state.inputRequests ?? {} };
  return {};
}

export function installLegacyTasks(server: Server, { source, clock, finished }: TaskOptions): void {
  server.setRequestHandler('tasks/get', { params: anySchema }, async (params, ctx) => {
    const id = taskIdOf(params);
    const state = finished.find(id) ?? (await source.task(id, toSourceCall(ctx)));
    return legacyTask(requireTask(id, state), clock);
  });
  server.setRequestHandler('tasks/result', { params: anySchema }, async (params, ctx) => {
    const id = taskIdOf(params);
    const state = finished.find(id) ?? (await source.settledTask(id, toSourceCall(ctx)));
    return legacyResult(requireTask(id, state));
  });
  server.setRequestHandler('tasks/list', { params: anySchema }, async (params, ctx) => {
    const page = await source.tasks(params.cursor as string | undefined, toSourceCall(ctx));
    return {
      tasks: page.items.map((state) => legacyTask(state, clock)),
      ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}),
    };
  });
  server.setRequestHandler('tasks/cancel', { params: anySchema }, async (params, ctx) => {
    const id = taskIdOf(params);
    const before = requireTask(id, finished.find(id) ?? (await source.task(id, toSourceCall(ctx))));
    if (isOver(before.status)) {
      const message = `Task ${id} is already over: ${before.status}.`;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
    }
    return legacyTask(requireTask(id, await source.cancelTask(id, toSourceCall(ctx))), clock);
  });
}

/** Sends status notifications to the client that created a task, until its connection closes. */
export function legacyStatusNotifier(
  server: Server,
  { source, clock }: TaskOptions,
): (id: string) => void {
  const gone = new AbortController();
  const { onclose } = server;
  server.onclose = () => {
    gone.abort();
    onclose?.();
  };
  const notify = (state: TaskState) => {
    const params = legacyTask(state, clock) as never;
    void server.notification({ method: 'notifications/tasks/status', params }).catch(() => {});
  };
  return (id) => followTask(id, { source, clock, notify, isKnown: true }, gone.signal);
}

const legacyTask = (state: TaskState, clock: Clock): JsonObject => ({
  ...taskFields(state),
  ttl: null,
  pollInterval: pollInterval(state, clock),
});

/** The fields that both versions share. */
function taskFields(state: TaskState): JsonObject {
  return {
    taskId: state.id,
    status: state.status,
    ...(state.message ? { statusMessage: state.message } : {}),
    createdAt: state.createdAt,
    lastUpdatedAt: state.updatedAt,
  };
}

function legacyResult(state: TaskState): JsonObject {
  const related = { [RELATED_TASK_META_KEY]: { taskId: state.id } };
  if (state.result) return { ...toCallToolResult(state.result), _meta: related };
  const message = state.error?.message ?? `Task ${state.id} was ${state.status}.`;
  throw new ProtocolError(state.error?.code ?? ProtocolErrorCode.InternalError, message);
}

function pollInterval(state: TaskState, clock: Clock): number {
  return clock.now() - Date.parse(state.createdAt) > slowPollAfterMs ? slowPollMs : pollMs;
}

function taskIdOf(params: JsonObject): string {
  if (typeof params.taskId === 'string') return params.taskId;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'taskId must be a string.');
}

function requireTask(id: string, state: TaskState | undefined): TaskState {
  if (state) return state;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Task ${id} does not exist.`);
}

const maxFinished = 200;

/** A 2025 client that requested a task must get one even when the result is immediate. Such results are kept here for a while. */
export class FinishedTasks {
  private readonly clock: Clock;
  private readonly states = new Map<string, TaskState>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  find(id: string): TaskState | undefined {
    return this.states.get(id);
  }

  async create(result: ToolResult, source: Source, call: SourceCall): Promise<JsonObject> {
    const state = result.jobId ? await source.task(result.jobId, call) : this.keep(result);
    return {
      task: legacyTask(requireTask(result.jobId ?? '', state), this.clock),
      content: [],
      ...(result.text ? { _meta: { [immediateResponseKey]: result.text } } : {}),
    };
  }

  private keep(result: ToolResult): TaskState {
    if (this.states.size >= maxFinished) this.states.delete(this.states.keys().next().value!);
    const now = new Date(this.clock.now()).toISOString();
    const id = `task_${randomUUID()}`;
    const state: TaskState = { id, status: 'completed', createdAt: now, updatedAt: now, result };
    this.states.set(id, state);
    return state;
  }
}

/** Text that clients may show to the model while the task runs. */
const immediateResponseKey = 'io.modelcontextprotocol/model-immediate-response';
