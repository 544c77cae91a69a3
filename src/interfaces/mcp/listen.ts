// The subscriptions of a 2026 client of a bridge. The SDK handles `subscriptions/listen` and delivers updates, but does not
// expose which jobs the client subscribed to, so this class observes the messages.
import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import type { JsonObject, Source } from './source.ts';
import type { TransportObserver, MessageRewriter } from './transport-observer.ts';
import {
  acknowledgedUris,
  requestsTasks,
  followTasks,
  rewriteIncoming,
  isTaskUri,
  rewriteOutgoing,
} from './task-listen.ts';

interface ListenOptions {
  source: Source;
  clock: Clock;
  /** Called when a resource changed. For a task the update contains the new state. */
  updated(update: { uri: string }): void;
  /** Responds to a request that is kept from the SDK. */
  respond(message: JsonObject): void;
}

const maxUris = 200;

export class ListenSubscriptions implements TransportObserver, MessageRewriter {
  private readonly options: ListenOptions;
  private readonly subscriptions = new Map<unknown, AbortController>();

  constructor(options: ListenOptions) {
    this.options = options;
  }

  rewriteIncoming(message: JsonObject): Promise<JsonObject | undefined> | undefined {
    if (!requestsTasks(message)) return undefined;
    const { signal } = this.open(message.id);
    return rewriteIncoming(message, this.options.source, signal).then((rewritten) => {
      // The client cancelled the request, so it expects no response.
      if (signal.aborted) return undefined;
      if ('pass' in rewritten) return rewritten.pass;
      this.stop(message.id);
      this.options.respond(rewritten.response);
      return undefined;
    });
  }

  rewriteOutgoing(message: JsonObject): JsonObject {
    return rewriteOutgoing(message);
  }

  received(message: JsonObject): void {
    const params = message.params as JsonObject | undefined;
    if (message.method === 'notifications/cancelled') this.stop(params?.requestId);
    const uris = message.method === 'subscriptions/listen' ? resourceUris(params) : [];
    const { source, updated } = this.options;
    if (uris.length > 0)
      watchAll(source, uris, (uri) => updated({ uri }), this.open(message.id).signal);
  }

  /** The first task update is the current state. It must not be sent before the acknowledgement. */
  sent(message: JsonObject): void {
    const uris = acknowledgedUris(message).filter(isTaskUri);
    if (uris.length === 0) return;
    const { _meta } = message.params as { _meta?: JsonObject };
    const { source, clock, updated: notify } = this.options;
    const { signal } = this.open(_meta?.[SUBSCRIPTION_ID_META_KEY]);
    followTasks(uris, { source, clock, notify }, signal);
  }

  close(): void {
    for (const stop of this.subscriptions.values()) stop.abort();
    this.subscriptions.clear();
  }

  private open(id: unknown): AbortController {
    const known = this.subscriptions.get(id);
    if (known) return known;
    const stop = new AbortController();
    this.subscriptions.set(id, stop);
    return stop;
  }

  private stop(id: unknown): void {
    this.subscriptions.get(id)?.abort();
    this.subscriptions.delete(id);
  }
}

/** Calls `updated` at each change of each resource until the signal aborts. */
export function watchAll(
  source: Source,
  uris: readonly string[],
  updated: (uri: string) => void,
  signal: AbortSignal,
): void {
  for (const uri of new Set(uris)) {
    source.watch(uri, () => updated(uri), signal).catch(() => {});
  }
}

/** The resources of a listen request. Tasks are followed separately. */
export function resourceUris(listenParams: JsonObject | undefined): string[] {
  const filter = listenParams?.notifications as { resourceSubscriptions?: unknown } | undefined;
  const uris = filter?.resourceSubscriptions;
  if (!Array.isArray(uris)) return [];
  return uris.filter((uri) => typeof uri === 'string' && !isTaskUri(uri)).slice(0, maxUris);
}
