// What a 2026 client of a front listens to. The SDK answers `subscriptions/listen` itself and passes on the updates it is
// given, but does not tell for which jobs they are wanted; so the messages are read on their way.
import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import type { JsonObject, Source } from './source.ts';
import type { Tap, Turn } from './tap.ts';
import {
  acknowledged,
  asksForTasks,
  followTasks,
  inward,
  isTaskUri,
  outward,
} from './task-listen.ts';

export interface ListenOptions {
  source: Source;
  clock: Clock;
  /** A resource has changed; for a task with what it is now. */
  updated(news: { uri: string }): void;
  /** Answers a request that the SDK is not shown. */
  answer(message: JsonObject): void;
}

const urisMax = 200;

export class ListenWatch implements Tap, Turn {
  private readonly options: ListenOptions;
  private readonly wanted = new Map<unknown, AbortController>();

  constructor(options: ListenOptions) {
    this.options = options;
  }

  inward(message: JsonObject): Promise<JsonObject | undefined> | undefined {
    if (!asksForTasks(message)) return undefined;
    const { signal } = this.open(message.id);
    return inward(message, this.options.source, signal).then((turned) => {
      // Taken back before it was begun: nobody waits for an answer.
      if (signal.aborted) return undefined;
      if ('pass' in turned) return turned.pass;
      this.stop(message.id);
      this.options.answer(turned.answer);
      return undefined;
    });
  }

  outward(message: JsonObject): JsonObject {
    return outward(message);
  }

  received(message: JsonObject): void {
    const params = message.params as JsonObject | undefined;
    if (message.method === 'notifications/cancelled') this.stop(params?.requestId);
    const uris = message.method === 'subscriptions/listen' ? urisOf(params) : [];
    const { source, updated } = this.options;
    if (uris.length > 0)
      watchAll(source, uris, (uri) => updated({ uri }), this.open(message.id).signal);
  }

  /** News of tasks begin with their present state, which must not come before the acknowledgement. */
  sent(message: JsonObject): void {
    const uris = acknowledged(message).filter(isTaskUri);
    if (uris.length === 0) return;
    const { _meta } = message.params as { _meta?: JsonObject };
    const { source, clock, updated: tell } = this.options;
    const { signal } = this.open(_meta?.[SUBSCRIPTION_ID_META_KEY]);
    followTasks(uris, { source, clock, tell }, signal);
  }

  close(): void {
    for (const stop of this.wanted.values()) stop.abort();
    this.wanted.clear();
  }

  private open(id: unknown): AbortController {
    const known = this.wanted.get(id);
    if (known) return known;
    const stop = new AbortController();
    this.wanted.set(id, stop);
    return stop;
  }

  private stop(id: unknown): void {
    this.wanted.get(id)?.abort();
    this.wanted.delete(id);
  }
}

/** Tells of each change of each resource until the signal aborts. */
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

/** Resources of a listen request; tasks are followed on their own. */
export function urisOf(listenParams: JsonObject | undefined): string[] {
  const filter = listenParams?.notifications as { resourceSubscriptions?: unknown } | undefined;
  const uris = filter?.resourceSubscriptions;
  if (!Array.isArray(uris)) return [];
  return uris.filter((uri) => typeof uri === 'string' && !isTaskUri(uri)).slice(0, urisMax);
}
