// A proxy between the server and its chain node: forwards every call unless the test intercepts it.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Anvil } from './anvil.ts';

export interface RpcCall {
  method: string;
  params: unknown[];
}

/** Responds instead of the node, or after calling it with `pass`; never responds if the promise stays pending. */
export type Meddle = (call: RpcCall, pass: () => Promise<unknown>) => Promise<unknown>;

export interface Proxy {
  url: string;
  meddle: Meddle;
}

export const honest: Meddle = (_, pass) => pass();

export async function startProxy(t: TestContext, anvil: Anvil): Promise<Proxy> {
  const proxy: Proxy = { url: '', meddle: honest };
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (part: string) => (text += part));
    request.on('end', () => void serve());
    const serve = async () => {
      const { id, method, params } = JSON.parse(text) as RpcCall & { id: number };
      const answer = (body: object) =>
        response.end(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
      try {
        const pass = () => anvil.raw(method, params);
        const result = await proxy.meddle({ method, params }, async () => {
          const passed = await pass();
          if (passed.error) throw new NodeError(passed.error);
          return passed.result;
        });
        answer({ result });
      } catch (error) {
        if (error instanceof NodeError) answer({ error: error.body });
        else response.destroy();
      }
    };
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return proxy;
}

class NodeError extends Error {
  readonly body: unknown;
  constructor(body: unknown) {
    super('the node refused');
    this.body = body;
  }
}
