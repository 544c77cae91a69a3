// A loopback port that nobody listens on. It is below the ephemeral range, so that no outgoing connection and no
// `listen(0)` of a concurrent test takes it before the server starts or between two starts.
import { createServer } from 'node:net';

const lowest = 15_000;
const count = 15_000;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(Math.random() * count);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
