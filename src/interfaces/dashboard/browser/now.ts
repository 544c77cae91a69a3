// The current time, once per second, corrected by the difference to the server's clock.
import { signal } from '@preact/signals';

const tickMs = 1000;
let skewMs = 0;

export const now = signal(Date.now());

setInterval(() => (now.value = Date.now() + skewMs), tickMs);

/** The server's time at the moment it sent something. Small differences are transport, not clocks. */
export function setServerTime(serverMs: number): void {
  const difference = serverMs - Date.now();
  skewMs = Math.abs(difference) < 2 * tickMs ? 0 : difference;
}
