// The current time, once per second, corrected by the difference to the server's clock.
import { signal } from '@preact/signals';

const tickMs = 1000;
const maxTransportMs = 5000;
let skewMs = 0;

export const now = signal(Date.now());

setInterval(() => (now.value = Date.now() + skewMs), tickMs);

/** The server's time when it sent a response, in whole seconds. Small differences are transport, not clocks. */
export function setServerTime(serverMs: number): void {
  const difference = serverMs - Date.now();
  skewMs = Math.abs(difference) < maxTransportMs ? 0 : difference;
}
