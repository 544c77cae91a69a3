// `notifications/tasks`: pushes task states to clients that list `taskIds` in subscriptions/listen. The SDK only supports
// subscriptions to resources. Towards the SDK, a task is therefore a resource with its own URI scheme, and messages are
// rewritten: the incoming request, and the outgoing acknowledgement and updates.
import { CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import { tasksExtension } from './protocol.ts';
import type { JsonObject, Source, TaskState } from './source.ts';
import { followTask } from './task-follow.ts';
import { detailedTask, missingTasks } from './tasks.ts';

const scheme = 'errand-task:';
const maxTasks = 200;

export const isTaskUri = (uri: string): boolean => uri.startsWith(scheme);

/** Whether `rewriteIncoming` must handle this message. */
export function requestsTasks(message: JsonObject): boolean {
  return message.method === 'subscriptions/listen' && filterOf(message)?.taskIds !== undefined;
}

/** Returns the request for the SDK (`pass`), or an immediate error response. Unknown task ids are not acknowledged. */
export async function rewriteIncoming(
  message: JsonObject,
  source: Source,
  signal: AbortSignal,
): Promise<{ pass: JsonObject } | { response: JsonObject }> {
  const params = message.params as { _meta?: JsonObject };
  const declared = params._meta?.[CLIENT_CAPABILITIES_META_KEY] as
    | { extensions?: JsonObject }
    | undefined;
  if (declared && declared.extensions?.[tasksExtension] === undefined) {
    const { code, message: text, data } = missingTasks();
    return { response: { jsonrpc: '2.0', id: message.id, error: { code, message: text, data } } };
  }
  const { taskIds, ...filter } = filterOf(message)!;
  const ids = [...new Set([taskIds].flat())].filter((id) => typeof id === 'string');
  const lookups = ids.slice(0, maxTasks).map(async (id) => {
    const state = await source.task(id, { signal }).catch(() => undefined);
    return state ? [`${scheme}${id}`] : [];
  });
  const uris = [filter.resourceSubscriptions ?? [], ...(await Promise.all(lookups))].flat();
  const notifications = uris.length > 0 ? { ...filter, resourceSubscriptions: uris } : filter;
  return { pass: { ...message, params: { ...params, notifications } } };
}

/** Converts an SDK message to the form that the client expects. */
export function rewriteOutgoing(message: JsonObject): JsonObject {
  const params = message.params as JsonObject | undefined;
  if (message.method === 'notifications/resources/updated' && isTaskUri(String(params?.uri))) {
    const { uri: _, ...task } = params!;
    return { ...message, method: 'notifications/tasks', params: task };
  }
  const uris = acknowledgedUris(message);
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

/** The URIs in a subscription acknowledgement; empty for every other message. */
export function acknowledgedUris(message: JsonObject): string[] {
  if (message.method !== 'notifications/subscriptions/acknowledged') return [];
  return (filterOf(message)?.resourceSubscriptions ?? []) as string[];
}

/** Reports the current state of each task and every change, until the task is over or the signal aborts. */
export function followTasks(
  uris: readonly string[],
  { source, clock, notify }: { source: Source; clock: Clock; notify(update: TaskUpdate): void },
  signal: AbortSignal,
): void {
  for (const uri of uris.filter(isTaskUri)) {
    const notifyTask = (state: TaskState) => notify({ uri, ...detailedTask(state, clock) });
    followTask(uri.slice(scheme.length), { source, clock, notify: notifyTask }, signal);
  }
}

type TaskUpdate = { uri: string } & JsonObject;

function filterOf(message: JsonObject): JsonObject | undefined {
  const params = message.params as { notifications?: unknown } | undefined;
  const filter = params?.notifications;
  return typeof filter === 'object' && filter !== null ? (filter as JsonObject) : undefined;
}
