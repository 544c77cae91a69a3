// A server that goes away while somebody follows a job: the job goes on, and so does the following, on the next server.
import { isUnreachable, type Client } from './client.ts';
import type { CommandContext } from './command.ts';

/** A server that comes back later than this is given up. */
const awayMsMax = 60_000;
const pauseMs = 500;

/** Repeats `work` with a new client as long as the connection breaks. Progress forgives earlier breaks. */
export async function throughRestarts<T>(
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
      const answer = await work(client, () => (since = undefined));
      if (answer !== 'again') return answer;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      cause = error;
    }
    since ??= clock.now();
    if (clock.now() - since > awayMsMax && cause !== undefined) throw cause;
    await clock.sleep(pauseMs);
    client = await connect();
  }
}
