// A small local web site whose pages the test changes while it runs.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export type Page = (request: IncomingMessage, response: ServerResponse) => void;

export interface Site {
  url: string;
  /** `127.0.0.1:port`, for the allowlist of guarded requests. */
  host: string;
  page: Page;
  hits: number;
}

export async function openSite(t: TestContext, page: Page): Promise<Site> {
  const site: Site = { url: '', host: '', page, hits: 0 };
  const server = createServer((request, response) => {
    site.hits += 1;
    site.page(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  site.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  site.url = `http://${site.host}/`;
  return site;
}

export const json =
  (body: string): Page =>
  (_request, response) =>
    void response.end(body);
