// The dashboard in a real Chromium: one server behind a proxy that removes a base path, as a public server would be.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as send, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, type TestContext } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { TestBrowser } from '../../helpers/chromium.ts';
import { homeWith } from '../../helpers/folder.ts';
import { freePort } from '../../helpers/port.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';

const maxWaitMs = 25_000;
export const basePath = '/tools/errand';
/** A request with this header comes from a browser that keeps no cookies. */
export const withoutCookies = 'x-without-cookies';

export async function launch(t: TestContext, found: TestBrowser): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: found.path,
    args: [...found.args, '--no-sandbox'],
  });
  t.after(() => browser.close());
  return browser;
}

export interface Site {
  /** Address of the dashboard, without a slash at the end. */
  url: string;
  server: TestServer;
  /** Open connections to the event stream of all jobs. */
  streams(): number;
  /** Closes every connection of browsers and accepts none until `reconnect`. */
  disconnect(): void;
  reconnect(): void;
  restart(): Promise<void>;
}

export async function openSite(
  t: TestContext,
  settings: Record<string, unknown> = {},
  env: Record<string, string> = {},
): Promise<Site> {
  const port = await freePort();
  const proxy = await startProxy(t, port);
  const home = homeWith(t, { ...settings, server: { publicUrl: proxy.url } });
  const start = () => startServer(t, { home, env, args: ['--port', String(port)] });
  const site: Site = {
    url: proxy.url,
    server: await start(),
    streams: () => proxy.streams.size,
    disconnect: proxy.disconnect,
    reconnect: proxy.reconnect,
    restart: async () => {
      site.server = await start();
    },
  };
  return site;
}

async function startProxy(t: TestContext, port: number) {
  const streams = new Set<object>();
  let isDown = false;
  const proxy: Server = createServer((request, response) => {
    if (isDown) return void request.destroy();
    if (!request.url!.startsWith(`${basePath}/`)) return void response.writeHead(404).end();
    const path = request.url!.slice(basePath.length);
    if (path.startsWith('/api/jobs/watch?cursor=')) {
      streams.add(response);
      response.on('close', () => streams.delete(response));
    }
    const { method, headers } = request;
    const onward = send({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
      if (request.headers[withoutCookies] !== undefined) delete answer.headers['set-cookie'];
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
      answer.on('close', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const { port: ownPort } = proxy.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${ownPort}${basePath}`,
    streams,
    disconnect: () => {
      isDown = true;
      proxy.closeAllConnections();
    },
    reconnect: () => {
      isDown = false;
    },
  };
}

export async function loginAddress({ server, url }: Site, ...flags: string[]): Promise<string> {
  const opened = await server.cli('open', '--json', ...flags);
  const code = opened.json<{ url: string }>().url.split('#')[1]!;
  return `${url}/login#${code}`;
}

export interface LoggedIn {
  context: BrowserContext;
  page: Page;
  /** Errors of the console and of scripts, for example violations of the content policy. */
  errors: string[];
}

export async function logIn(
  browser: Browser,
  site: Site,
  { flags = [], ...options }: { flags?: string[] } & Parameters<Browser['newContext']>[0] = {},
): Promise<LoggedIn> {
  const context = await browser.newContext({ locale: 'en-US', ...options });
  context.setDefaultTimeout(maxWaitMs);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => {
    // Rejected calls are part of some tests. The page shows them.
    const isCall = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isCall) errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(error.message));
  await page.goto(await loginAddress(site, ...flags));
  await page.waitForSelector('nav[aria-label="Views"]');
  return { context, page, errors };
}

export interface Opened {
  browser: Browser;
  site: Site;
  own: LoggedIn;
}

/** One browser and one server for all tests of the suite that calls this. */
export function shareDashboard(found: TestBrowser, use: (opened: Opened) => void): void {
  const cleanUps: (() => unknown)[] = [];
  const file = { after: (run: () => unknown) => void cleanUps.push(run) } as unknown as TestContext;
  before(async () => {
    const [browser, site] = await Promise.all([launch(file, found), openSite(file)]);
    use({ browser, site, own: await logIn(browser, site) });
  });
  after(async () => {
    for (const run of cleanUps.toReversed()) await run();
  });
}

export async function startJob({ server }: Site, ...args: string[]): Promise<string> {
  const { stdout, stderr, code } = await server.cli('run', '--detach', ...args);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}
