// Tasks of both generations over the same jobs: the extension of 2026-07-28 (the server decides, clients poll tasks/get) and
// the experimental core feature of 2025-11-25 (the client asks with `params.task` and blocks on tasks/result).
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
import { anything, declaresTasks, plainCall, resultOf, tasksExtension } from './protocol.ts';
import {
  isOver,
  type Answer,
  type JsonObject,
  type Source,
  type SourceCall,
  type TaskState,
} from './source.ts';

const pollMs = 1000;
const pollMsOfOld = 5000;
/** After this age a task is polled less often. */
const oldAfterMs = 60_000;

interface TaskOptions {
  source: Source;
  clock: Clock;
  finished: FinishedTasks;
}

export function installModernTasks(server: Server, { source, clock }: TaskOptions): void {
  const known = async (params: JsonObject, ctx: ServerContext) => {
    requireTasks(ctx);
    const id = taskIdOf(params);
    return existing(id, await source.task(id, plainCall(ctx)));
  };
  server.setRequestHandler('tasks/get', { params: anything }, async (params, ctx) => {
    return detailedTask(await known(params, ctx), clock);
  });
  server.setRequestHandler('tasks/update', { params: anything }, async (params, ctx) => {
    const state = await known(params, ctx);
    const responses = (ctx.mcpReq.inputResponses ?? {}) as JsonObject;
    await source.answerTask?.(state.id, responses, plainCall(ctx));
    return {};
  });
  server.setRequestHandler('tasks/cancel', { params: anything }, async (params, ctx) => {
    const state = await known(params, ctx);
    if (!isOver(state.status)) await source.cancelTask(state.id, plainCall(ctx));
    return {};
  });
}

/** The call's answer, once the job has turned out to outlive it. Undefined: it is over after all. */
export async function createdTask(source: Source, id: string, call: SourceCall, clock: Clock) {
  const state = await source.task(id, call);
  if (!state || state.answer || state.error) return undefined;
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

/** All there is to say of a task, whether asked for or pushed. */
export const detailedTask = (state: TaskState, clock: Clock): JsonObject => ({
  ...modernTask(state, clock),
  ...detail(state),
});

function detail(state: TaskState): JsonObject {
  if (state.status === 'completed' && state.answer)
    return { result: { resultType: 'complete', ...resultOf(state.answer) } };
  if (state.status === 'failed') return { error: state.error };
  if (state.status === 'input_required') return { inputRequests: state.inputRequests ?? {} };
  return {};
}

export function installLegacyTasks(server: Server, { source, clock, finished }: TaskOptions): void {
  server.setRequestHandler('tasks/get', { params: anything }, async (params, ctx) => {
    const id = taskIdOf(params);
    const state = finished.find(id) ?? (await source.task(id, plainCall(ctx)));
    return legacyTask(existing(id, state), clock);
  });
  server.setRequestHandler('tasks/result', { params: anything }, async (params, ctx) => {
    const id = taskIdOf(params);
    const state = finished.find(id) ?? (await source.settledTask(id, plainCall(ctx)));
    return legacyResult(existing(id, state));
  });
  server.setRequestHandler('tasks/list', { params: anything }, async (params, ctx) => {
    const page = await source.tasks(params.cursor as string | undefined, plainCall(ctx));
    return {
      tasks: page.items.map((state) => legacyTask(state, clock)),
      ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}),
    };
  });
  server.setRequestHandler('tasks/cancel', { params: anything }, async (params, ctx) => {
    const id = taskIdOf(params);
    const before = existing(id, finished.find(id) ?? (await source.task(id, plainCall(ctx))));
    if (isOver(before.status)) {
      const message = `The task ${id} is over: ${before.status}.`;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
    }
    return legacyTask(existing(id, await source.cancelTask(id, plainCall(ctx))), clock);
  });
}

/** Whoever created a task over a connection that stays is told how it goes on, until that connection ends. */
export function legacyNews(server: Server, { source, clock }: TaskOptions): (id: string) => void {
  const gone = new AbortController();
  const { onclose } = server;
  server.onclose = () => {
    gone.abort();
    onclose?.();
  };
  const tell = (state: TaskState) => {
    const params = legacyTask(state, clock) as never;
    void server.notification({ method: 'notifications/tasks/status', params }).catch(() => {});
  };
  return (id) => followTask(id, { source, clock, tell, isKnown: true }, gone.signal);
}

const legacyTask = (state: TaskState, clock: Clock): JsonObject => ({
  ...taskFields(state),
  ttl: null,
  pollInterval: pollInterval(state, clock),
});

/** What both generations call the same. */
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
  if (state.answer) return { ...resultOf(state.answer), _meta: related };
  const message = state.error?.message ?? `The task ${state.id} was ${state.status}.`;
  throw new ProtocolError(state.error?.code ?? ProtocolErrorCode.InternalError, message);
}

function pollInterval(state: TaskState, clock: Clock): number {
  return clock.now() - Date.parse(state.createdAt) > oldAfterMs ? pollMsOfOld : pollMs;
}

function taskIdOf(params: JsonObject): string {
  if (typeof params.taskId === 'string') return params.taskId;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'taskId must be a string.');
}

function existing(id: string, state: TaskState | undefined): TaskState {
  if (state) return state;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no task ${id}.`);
}

const finishedMax = 200;

/** A 2025 client that asked for a task must get one, also when the answer was there at once: kept here for a while. */
export class FinishedTasks {
  private readonly clock: Clock;
  private readonly states = new Map<string, TaskState>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  find(id: string): TaskState | undefined {
    return this.states.get(id);
  }

  async create(answer: Answer, source: Source, call: SourceCall): Promise<JsonObject> {
    const state = answer.jobId ? await source.task(answer.jobId, call) : this.keep(answer);
    return {
      task: legacyTask(existing(answer.jobId ?? '', state), this.clock),
      content: [],
      ...(answer.text ? { _meta: { [immediateResponseKey]: answer.text } } : {}),
    };
  }

  private keep(answer: Answer): TaskState {
    if (this.states.size >= finishedMax) this.states.delete(this.states.keys().next().value!);
    const now = new Date(this.clock.now()).toISOString();
    const id = `task_${randomUUID()}`;
    const state: TaskState = { id, status: 'completed', createdAt: now, updatedAt: now, answer };
    this.states.set(id, state);
    return state;
  }
}

/** What the model may be told while the task runs. */
const immediateResponseKey = 'io.modelcontextprotocol/model-immediate-response';
