// Which job resources a 2026 client listens to. The SDK answers `subscriptions/listen` itself and passes on the updates it is
// given, but does not tell for which resources they are wanted; so the requests are read on their way in.
import type { JsonObject, Source } from './source.ts';
import type { Tap } from './tap.ts';

const urisMax = 200;

export class ListenWatch implements Tap {
  private readonly source: Source;
  private readonly updated: (uri: string) => void;
  private readonly wanted = new Map<unknown, AbortController>();

  constructor(source: Source, updated: (uri: string) => void) {
    this.source = source;
    this.updated = updated;
  }

  received(message: JsonObject): void {
    const params = message.params as JsonObject | undefined;
    if (message.method === 'subscriptions/listen') this.start(message.id, urisOf(params));
    if (message.method === 'notifications/cancelled') this.stop(params?.requestId);
  }

  close(): void {
    for (const stop of this.wanted.values()) stop.abort();
    this.wanted.clear();
  }

  private start(id: unknown, uris: string[]): void {
    if (uris.length === 0) return;
    this.stop(id);
    const stop = new AbortController();
    this.wanted.set(id, stop);
    watchAll(this.source, uris, this.updated, stop.signal);
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

export function urisOf(listenParams: JsonObject | undefined): string[] {
  const filter = listenParams?.notifications as { resourceSubscriptions?: unknown } | undefined;
  const uris = filter?.resourceSubscriptions;
  if (!Array.isArray(uris)) return [];
  return uris.filter((uri) => typeof uri === 'string').slice(0, urisMax);
}
