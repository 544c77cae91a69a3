// Everything that is sent over a connection in one turn leaves in one write: a system call for each statement costs more
// than the statement, on both sides.
import type { ClientBase } from 'pg';

interface Corkable {
  cork(): void;
  uncork(): void;
}

const held = new WeakSet<Corkable>();

/** Call it before a statement is sent. What follows until all promises of this turn have settled goes out together. */
export function burst(client: Pick<ClientBase, 'query'>): void {
  // Not part of pg's types; without it the statements go out one by one, as pg does by itself.
  const { connection } = client as { connection?: { stream?: Partial<Corkable> } };
  const stream = connection?.stream;
  if (!stream?.cork || !stream.uncork || held.has(stream as Corkable)) return;
  const corked = stream as Corkable;
  held.add(corked);
  corked.cork();
  // A tick asked for from within a promise comes when no promise is left to settle.
  queueMicrotask(() =>
    process.nextTick(() => {
      held.delete(corked);
      corked.uncork();
    }),
  );
}
