// The shared worker: one connection for all tabs of this browser.
import { Hub } from './hub.ts';
import type { FromPage } from './messages.ts';

const hub = new Hub();

addEventListener('connect', (event) => {
  const port = (event as MessageEvent).ports[0]!;
  const page = { post: (message: unknown) => port.postMessage(message) };
  port.onmessage = ({ data }: MessageEvent<FromPage>) => hub.receive(page, data);
});
