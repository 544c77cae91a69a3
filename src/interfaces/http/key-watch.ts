// Ends open event streams, WebSockets and long polls when their key is revoked or expires.
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Exchange } from './exchange.ts';

/** How long a stream may outlive its key. */
const checkEveryMs = 2000;

interface KeyWatchDeps {
  findCaller(): Promise<Caller | undefined>;
  clock: Clock;
}

/** Checks the key periodically until the response is closed; closes the connection when the key stops working. */
export function watchKey(exchange: Exchange, deps: KeyWatchDeps): void {
  const { response, gone, upgraded } = exchange;
  const check = async () => {
    if (response.closed || gone.signal.aborted) return;
    const isValid = await deps.findCaller().then(
      (caller) => caller !== undefined,
      // A failing store does not prove that the key is invalid.
      () => true,
    );
    if (isValid) return void (cancel = deps.clock.after(checkEveryMs, () => void check()));
    gone.abort();
    response.destroy();
    upgraded?.destroy();
  };
  let cancel = deps.clock.after(checkEveryMs, () => void check());
  response.once('close', () => cancel());
}
