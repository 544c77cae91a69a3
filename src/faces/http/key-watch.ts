// Ends what is open in the name of a key that no longer works: event streams, WebSockets and long polls.
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Exchange } from './exchange.ts';

/** How long a stream may outlive its key. */
const lookMs = 2000;

export interface KeyWatchNeeds {
  authenticate(key: string): Promise<Caller | undefined>;
  clock: Clock;
}

/** Looks from now on, until the response is over, whether the key still works; cuts the connection when it does not. */
export function watchKey(exchange: Exchange, key: string, needs: KeyWatchNeeds): void {
  const { response, gone, upgraded } = exchange;
  const look = async () => {
    if (response.closed || gone.signal.aborted) return;
    const isValid = await needs.authenticate(key).then(
      (caller) => caller !== undefined,
      // A store that does not answer says nothing about the key.
      () => true,
    );
    if (isValid) return void (cancel = needs.clock.after(lookMs, () => void look()));
    gone.abort();
    response.destroy();
    upgraded?.destroy();
  };
  let cancel = needs.clock.after(lookMs, () => void look());
  response.once('close', () => cancel());
}
