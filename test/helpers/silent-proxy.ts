// Simulates a network that goes silent between a program and a local port while all connections stay open.
import { connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

/** Forwards to a local port until it is frozen. Then connections stay open and nothing passes. */
export async function silentProxy(t: TestContext, target: number) {
  const pairs = new Set<[Socket, Socket]>();
  let frozen = false;
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    for (const [from, to] of [pair, pair.toReversed()] as [Socket, Socket][]) {
      from.on('error', () => to.destroy());
      from.on('close', () => (to.destroy(), pairs.delete(pair)));
      // Piping twice would send everything twice.
      if (frozen) from.pause();
      else from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const pair of pairs) for (const socket of pair) socket.destroy();
  });
  return {
    port: (server.address() as { port: number }).port,
    freeze: (silent: boolean) => {
      frozen = silent;
      for (const [client, upstream] of pairs) {
        for (const [from, to] of [
          [client, upstream],
          [upstream, client],
        ] as const) {
          if (silent) from.unpipe(to).pause();
          else from.pipe(to);
        }
      }
    },
  };
}
