// One server, one browser and one logged-in page for all tests of a file, and the checks that every view passes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { TestBrowser } from '../../helpers/chromium.ts';
import { violations } from './axe.ts';
import { launch, logIn, openSite, type LoggedIn, type Site } from './kit.ts';

export const attack = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>';

export interface Dashboard {
  browser: Browser;
  site: Site;
  own: LoggedIn;
  page: Page;
  open(path: string): Promise<unknown>;
  /** Calls the API with the owner's key. Fails unless it succeeds. */
  call<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T>;
  close(): Promise<void>;
}

export async function openDashboard(
  found: TestBrowser,
  settings: Record<string, unknown> = {},
  env: Record<string, string> = {},
): Promise<Dashboard> {
  const cleanUps: (() => unknown)[] = [];
  const file = { after: (run: () => unknown) => void cleanUps.push(run) } as unknown as TestContext;
  const [browser, site] = await Promise.all([launch(file, found), openSite(file, settings, env)]);
  const own = await logIn(browser, site);
  const { page } = own;
  return {
    browser,
    site,
    own,
    page,
    open: (path) => page.goto(site.url + path),
    call: async <T>(method: string, path: string, body?: unknown) => {
      const response = await site.server.api(method, path, body);
      assert.ok(response.status < 300, response.text);
      return response.json<T>();
    },
    close: async () => {
      for (const run of cleanUps.toReversed()) await run();
    },
  };
}

/** No text from outside became an element or ran. */
export async function assertHarmless({ page }: Dashboard): Promise<void> {
  assert.equal(await page.evaluate('window.attacked'), undefined);
  assert.equal(await page.locator('#main :is(img:not([src^="data:image/"]), script)').count(), 0);
}

/** Each view passes axe in light and dark, and at 375 px nothing is wider than the screen. */
export async function assertAccessible(
  { page, site }: Dashboard,
  views: readonly (readonly [path: string, ready: string])[],
): Promise<void> {
  const wrong: string[] = [];
  for (const [path, ready] of views) {
    await page.goto(site.url + path);
    await page.waitForSelector(ready);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      wrong.push(...(await violations(page)).map((text) => `${path} ${colorScheme}: ${text}`));
    }
    await page.setViewportSize({ width: 375, height: 700 });
    const width = await page.evaluate<number>(`document.querySelector('#main').scrollWidth`);
    if (width > 375) wrong.push(`${path} is ${width} px wide`);
    await page.setViewportSize({ width: 1280, height: 720 });
  }
  await page.emulateMedia({ colorScheme: 'light' });
  assert.deepEqual(wrong, []);
}

/** A site whose pages come from a function. Without one, a path is not found. */
export async function serveSite(
  t: Pick<TestContext, 'after'>,
  bodyOf: (request: { path: string; isFixed: boolean }) => string | undefined,
): Promise<{ url: string; fix(): void }> {
  let isFixed = false;
  const server = createServer((request, response) => {
    const body = bodyOf({ path: request.url!, isFixed });
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html' });
    response.end(body ?? 'not found');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/`, fix: () => void (isFixed = true) };
}
