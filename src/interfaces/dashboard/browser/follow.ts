// Follows one stream of the server, and continues after the last event when the connection is lost.
import { open, Problem, queryText } from './api.ts';
import { readEvents } from './stream/sse.ts';

interface FollowOptions {
  signal: AbortSignal;
  /** Called with the items of each piece. */
  onItems(items: unknown[]): void;
  onEnd(): void;
  onError(error: unknown): void;
}

const retryMs = 1000;
const maxRetries = 30;

export async function follow(
  path: string,
  input: Readonly<Record<string, unknown>>,
  { signal, onItems, onEnd, onError }: FollowOptions,
): Promise<void> {
  let cursor: string | undefined;
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      const query = queryText(cursor === undefined ? input : { ...input, cursor });
      const response = await open(`${path}${query}`, 'text/event-stream', signal);
      for await (const events of readEvents(response.body!)) {
        const last = events.at(-1);
        if (!last) continue;
        failures = 0;
        cursor = events.findLast(({ id }) => id !== undefined)?.id ?? cursor;
        const items = events.filter(({ event }) => event !== 'end' && event !== 'error');
        if (items.length > 0) onItems(items.map(({ data }) => JSON.parse(data) as unknown));
        if (last.event === 'end') return onEnd();
        if (last.event === 'error') return onError(problemIn(last.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (failures >= maxRetries) return onError(error);
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

function problemIn(data: string): Problem {
  const body = JSON.parse(data) as Record<string, unknown>;
  return new Problem(Number(body.status), body);
}
