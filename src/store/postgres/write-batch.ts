// Sends all statements of one event-loop turn in one socket write, because a system call per statement costs more than
// the statement itself, on both sides.
import type { ClientBase } from 'pg';

interface Corkable {
  cork(): void;
  uncork(): void;
}

const corkedStreams = new WeakSet<Corkable>();

/** Call before sending a statement. Everything sent until the promises of this turn have settled leaves in one write. */
export function batchWrites(client: Pick<ClientBase, 'query'>): void {
  // `connection.stream` is not part of pg's types. Without it, pg writes each statement separately.
  const { connection } = client as { connection?: { stream?: Partial<Corkable> } };
  const stream = connection?.stream;
  if (!stream?.cork || !stream.uncork || corkedStreams.has(stream as Corkable)) return;
  const corked = stream as Corkable;
  corkedStreams.add(corked);
  corked.cork();
  // A tick scheduled from a microtask runs when no microtask is left.
  queueMicrotask(() =>
    process.nextTick(() => {
      corkedStreams.delete(corked);
      corked.uncork();
    }),
  );
}
