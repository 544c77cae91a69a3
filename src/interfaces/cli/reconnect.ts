// Reconnects when the server restarts while a command follows a job. The job keeps running, and so does the command.
import { isUnreachable, type Client } from './client.ts';
import type { CommandContext } from './command.ts';

/** Gives up when the server is unreachable for longer than this. */
const maxAwayMs = 60_000;
const pauseMs = 500;

/** Repeats `work` with a new client after connection errors and when it returns 'again'. Progress resets the time limit. */
export async function withReconnect<T>(
  { program, client: connect }: CommandContext,
  first: Client,
  work: (client: Client, progress: () => void) => Promise<T | 'again'>,
): Promise<T> {
  const { clock } = program;
  let client = first;
  let since: number | undefined;
  for (;;) {
    let cause: unknown;
    try {
      const result = await work(client, () => (since = undefined));
      if (result !== 'again') return result;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      cause = error;
    }
    since ??= clock.now();
    if (clock.now() - since > maxAwayMs && cause !== undefined) throw cause;
    await clock.sleep(pauseMs);
    client = await connect();
  }
}
