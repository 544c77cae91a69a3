// `notifications/tasks`: states of tasks, pushed to who names them as `taskIds` of a subscriptions/listen. The SDK's listen
// routers know resources only; so beyond the wire a task is a resource of a scheme of its own, and the messages are
// turned: the request on its way in, its acknowledgement and the news on their way out.
import { CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import { tasksExtension } from './protocol.ts';
import type { JsonObject, Source, TaskState } from './source.ts';
import { followTask } from './task-follow.ts';
import { detailedTask, missingTasks } from './tasks.ts';

const scheme = 'errand-task:';
const tasksMax = 200;

export const isTaskUri = (uri: string): boolean => uri.startsWith(scheme);

/** Whether this is a message that `inward` must see. */
export function asksForTasks(message: JsonObject): boolean {
  return message.method === 'subscriptions/listen' && filterOf(message)?.taskIds !== undefined;
}

/** The request as the SDK knows it (`pass`), or the answer it gets at once. Ids nobody has are not acknowledged. */
export async function inward(
  message: JsonObject,
  source: Source,
  signal: AbortSignal,
): Promise<{ pass: JsonObject } | { answer: JsonObject }> {
  const params = message.params as { _meta?: JsonObject };
  const declared = params._meta?.[CLIENT_CAPABILITIES_META_KEY] as
    | { extensions?: JsonObject }
    | undefined;
  if (declared && declared.extensions?.[tasksExtension] === undefined) {
    const { code, message: text, data } = missingTasks();
    return { answer: { jsonrpc: '2.0', id: message.id, error: { code, message: text, data } } };
  }
  const { taskIds, ...filter } = filterOf(message)!;
  const ids = [...new Set([taskIds].flat())].filter((id) => typeof id === 'string');
  const looks = ids.slice(0, tasksMax).map(async (id) => {
    const state = await source.task(id, { signal }).catch(() => undefined);
    return state ? [`${scheme}${id}`] : [];
  });
  const uris = [filter.resourceSubscriptions ?? [], ...(await Promise.all(looks))].flat();
  const notifications = uris.length > 0 ? { ...filter, resourceSubscriptions: uris } : filter;
  return { pass: { ...message, params: { ...params, notifications } } };
}

/** A message of the SDK as the client knows it. */
export function outward(message: JsonObject): JsonObject {
  const params = message.params as JsonObject | undefined;
  if (message.method === 'notifications/resources/updated' && isTaskUri(String(params?.uri))) {
    const { uri: _, ...task } = params!;
    return { ...message, method: 'notifications/tasks', params: task };
  }
  const uris = acknowledged(message);
  if (!uris.some(isTaskUri)) return message;
  const { resourceSubscriptions: _, ...filter } = filterOf(message)!;
  const others = uris.filter((uri) => !isTaskUri(uri));
  const taskIds = uris.filter(isTaskUri).map((uri) => uri.slice(scheme.length));
  const notifications = {
    ...filter,
    ...(others.length > 0 ? { resourceSubscriptions: others } : {}),
    taskIds,
  };
  return { ...message, params: { ...params, notifications } };
}

/** What the SDK tells a client it will hear of; empty for every other message. */
export function acknowledged(message: JsonObject): string[] {
  if (message.method !== 'notifications/subscriptions/acknowledged') return [];
  return (filterOf(message)?.resourceSubscriptions ?? []) as string[];
}

/** Tells who listens the state of each task now and at each change, until it is over or the signal aborts. */
export function followTasks(
  uris: readonly string[],
  { source, clock, tell }: { source: Source; clock: Clock; tell(news: TaskNews): void },
  signal: AbortSignal,
): void {
  for (const uri of uris.filter(isTaskUri)) {
    const told = (state: TaskState) => tell({ uri, ...detailedTask(state, clock) });
    followTask(uri.slice(scheme.length), { source, clock, tell: told }, signal);
  }
}

export type TaskNews = { uri: string } & JsonObject;

function filterOf(message: JsonObject): JsonObject | undefined {
  const params = message.params as { notifications?: unknown } | undefined;
  const filter = params?.notifications;
  return typeof filter === 'object' && filter !== null ? (filter as JsonObject) : undefined;
}
