// Remotes for endpoint tests: a proxy to another server that may drop responses, and a server that is not Errand.
import { request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import type { EndpointServer } from './endpoint.ts';
import { listen, textOf } from './listener.ts';

export const isRun = ({ method, url }: IncomingMessage): boolean =>
  method === 'POST' && url!.endsWith('/run');

export async function countThere(far: EndpointServer): Promise<number> {
  const { body } = await far.call('GET', '/v2/there/requests?limit=200');
  return (body.requests as unknown[]).length;
}

/** Forwards everything. If `swallow` returns true, the response never arrives. */
export async function proxy(
  t: TestContext,
  to: string,
  swallow: (incoming: IncomingMessage) => boolean,
): Promise<{ url: string }> {
  const url = await listen(t, (incoming, outgoing) => {
    const silent = swallow(incoming);
    const { method, headers } = incoming;
    const onward = request(`${to}${incoming.url}`, { method: method!, headers }, (response) => {
      if (silent) return void response.resume();
      outgoing.writeHead(response.statusCode!, response.headers);
      response.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  return { url: `${url}/v2` };
}

/** A remote that is not Errand. */
export async function fake(
  t: TestContext,
  handle: (incoming: IncomingMessage, response: ServerResponse, body: unknown) => unknown,
): Promise<{ baseUrl: string; endpointId: string }> {
  const baseUrl = await listen(t, async (incoming, response) => {
    const text = await textOf(incoming);
    await handle(incoming, response, text === '' ? {} : JSON.parse(text));
  });
  return { baseUrl, endpointId: 'x' };
}

export function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
