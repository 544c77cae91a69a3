// The dashboard in a real Chromium: changes of everything that matches, and what happens when the network, the session, the
// clock or other pages misbehave. The tests share one browser and one server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { browserSkip, findChromium, type TestBrowser } from '../../helpers/chromium.ts';
import { until } from '../../helpers/until.ts';
import {
  loginAddress,
  shareDashboard,
  startJob,
  withoutCookies,
  type LoggedIn,
  type Site,
} from './kit.ts';

const found = await findChromium();
const hourMs = 3_600_000;

describe('dashboard and faults', { skip: browserSkip(found) }, () => {
  let browser: Browser;
  let site: Site;
  let own: LoggedIn;
  let page: Page;

  shareDashboard(found as TestBrowser, (opened) => {
    ({ browser, site, own } = opened);
    ({ page } = own);
  });

  const start = (...args: string[]) => startJob(site, ...args);
  const statusOf = async (id: string) =>
    (await site.server.api('GET', `/api/jobs/${id}`)).json<{ status: string | number }>().status;
  const ended = (ids: string[]) =>
    until('the jobs ended', async () =>
      (await Promise.all(ids.map(statusOf))).every((status) => status === 'failed'),
    );
  const openList = async (query: string) => {
    await page.goto(`${site.url}/jobs?q=${encodeURIComponent(query)}`);
    await page.waitForSelector('tr[data-id]');
  };

  test('a change of everything that matches keeps to the filter and the number that were shown', async () => {
    const fail = (tag: string) => start('--tag', tag, '--shell', 'exit 1');
    const running = await start('--tag', 'bulk', '--shell', 'sleep 600');
    const other = await fail('other');
    const first = [await fail('bulk'), await fail('bulk')];
    await ended([...first, other]);
    await openList('status:failed tag:bulk');
    await page.reload();
    await page.getByRole('button', { name: 'Select all 2' }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Delete 2 jobs?').waitFor();
    assert.equal(await dialog.locator('.pinned-filter').innerText(), 'status:failed tag:bulk');
    const late = await fail('bulk');
    await ended([late]);
    await dialog.getByRole('button', { name: 'Delete 2' }).click();
    await dialog.getByText('Delete 3 jobs?').waitFor();
    for (const id of first) assert.equal(await statusOf(id), 'failed', 'nothing was deleted');
    await dialog.getByRole('button', { name: 'Delete 3' }).click();
    await page.getByText('Deleted 3 jobs.').waitFor();
    await page.getByText('No job matches').waitFor();
    assert.match(page.url(), /q=status%3Afailed/);
    for (const id of [...first, late]) assert.equal(await statusOf(id), 404, 'it is gone');
    assert.deepEqual([await statusOf(running), await statusOf(other)], ['running', 'failed']);
    await page.keyboard.press('Escape');
    assert.equal((await site.server.api('POST', `/api/jobs/${running}/cancel`)).status, 200);
  });

  test('split streams, what a job waits for, and its events are shown', async () => {
    const id = await start('--split', '--shell', 'echo to-stdout; echo to-stderr >&2');
    const running = await start('--shell', 'sleep 600');
    const waiting = await start('--name', 'after-it', '--after', running, '--shell', 'true');
    await page.goto(`${site.url}/jobs/${id}`);
    await page.getByRole('log', { name: 'Output: stdout' }).getByText('to-stdout').waitFor();
    await page.getByRole('log', { name: 'Output: stderr' }).getByText('to-stderr').waitFor();
    await page.getByLabel('Stream').selectOption('stderr');
    await page.getByRole('log', { name: 'Output: stdout' }).waitFor({ state: 'detached' });
    await page.goto(`${site.url}/jobs/${waiting}?tab=related`);
    await page.locator('.related').getByText('Waits for').waitFor();
    assert.match(
      (await page.locator('.related a').getAttribute('href'))!,
      new RegExp(`${running}$`),
    );
    await page.getByRole('tab', { name: 'Events' }).click();
    await page.getByRole('cell', { name: 'submitted' }).waitFor();
    assert.equal((await site.server.api('POST', `/api/jobs/${running}/cancel`)).status, 200);
  });

  test('output that was printed while the network was down appears once and in order', async () => {
    const last = 25;
    const id = await start(
      '--shell',
      `for i in $(seq 1 ${last}); do echo tick $i; sleep 0.15; done`,
    );
    await page.goto(`${site.url}/jobs/${id}`);
    const lines = page.locator('.streams .text');
    await lines.getByText('tick 2').first().waitFor();
    site.disconnect();
    await page.getByText('Reconnecting…').waitFor();
    await until('the job ended meanwhile', async () => (await statusOf(id)) === 'completed');
    site.reconnect();
    await page.getByText('Reconnecting…').waitFor({ state: 'hidden' });
    await lines.getByText(`tick ${last}`).waitFor();
    await page.locator('.job-title').getByText('completed').waitFor();
    const shown = (await lines.allInnerTexts()).map((text) => text.trim());
    assert.deepEqual(
      shown,
      Array.from({ length: last }, (_, i) => `tick ${i + 1}`),
    );
  });

  test('a browser whose clock is wrong shows the ages that the server knows', async () => {
    const id = await start('--name', 'timely', '--shell', 'true');
    const context = await browser.newContext({ locale: 'en-US' });
    await context.addInitScript(`{
      const now = Date.now.bind(Date);
      Date.now = () => now() - ${5 * hourMs};
    }`);
    const wrong = await context.newPage();
    await wrong.goto(await loginAddress(site));
    const age = wrong.locator(`tr[data-id="${id}"] time`);
    await until('the age is right', async () => /^([1-9]|[1-5]\d)s$/.test(await age.innerText()));
    await wrong.goto(`${site.url}/jobs?q=since%3A1h`);
    await wrong.locator(`tr[data-id="${id}"]`).waitFor();
    await wrong.goto(`${site.url}/jobs?q=before%3A1h`);
    await wrong.getByText('No job matches').waitFor();
    await context.close();
  });

  test('without cookies the login says so', async () => {
    const context = await browser.newContext({ extraHTTPHeaders: { [withoutCookies]: '1' } });
    const other = await context.newPage();
    await other.goto(await loginAddress(site));
    await other.getByText('The browser did not keep the session cookie').waitFor();
    await context.close();
  });

  test('a session ends while it is open when its key is revoked or expires', async () => {
    const create = async (more: object) =>
      (await site.server.api('POST', '/api/keys', { owner: 'guest', ...more })).json<{
        id: string;
        key: string;
      }>();
    const enter = async (key: string) => {
      const context = await browser.newContext({ locale: 'en-US' });
      const guest = await context.newPage();
      await guest.goto(`${site.url}/login`);
      await guest.getByLabel('Or log in with an API key').fill(key);
      await guest.getByRole('button', { name: 'Log in' }).click();
      await guest.getByText('No jobs yet').waitFor();
      return guest;
    };
    const [revoked, expiring] = [await create({}), await create({ expiresInMs: 10_000 })];
    const [first, second] = await Promise.all([enter(revoked.key), enter(expiring.key)]);
    assert.equal((await site.server.api('DELETE', `/api/keys/${revoked.id}`)).status, 200);
    for (const guest of [first, second]) await guest.getByText('The session ended').waitFor();
    for (const guest of [first, second]) await guest.context().close();
  });

  test('another page can neither start jobs, nor read them, nor show the dashboard in a frame', async (t) => {
    const foreign = createServer((_request, response) =>
      response.end(`<!doctype html><iframe src="${site.url}/jobs"></iframe>`),
    );
    foreign.listen(0, '127.0.0.1');
    await once(foreign, 'listening');
    t.after(() => foreign.close());
    const { port } = foreign.address() as AddressInfo;
    const count = async () =>
      (await site.server.api('GET', '/api/jobs/count')).json<{ count: number }>().count;
    const before = await count();
    const evil = await own.context.newPage();
    await evil.goto(`http://127.0.0.1:${port}/`);
    const outcomes = await evil.evaluate(async (url) => {
      const body = JSON.stringify({ command: 'true', waitMs: 0 });
      const call = (options: RequestInit) =>
        fetch(`${url}/api/commands`, { method: 'POST', credentials: 'include', body, ...options });
      const json = { 'content-type': 'application/json' };
      const results = await Promise.allSettled([
        call({ headers: json }),
        call({ mode: 'no-cors' }),
        fetch(`${url}/api/jobs`, { credentials: 'include' }).then((response) => response.json()),
      ]);
      return results.map(({ status }) => status);
    }, site.url);
    assert.deepEqual(outcomes, ['rejected', 'fulfilled', 'rejected'], 'no-cors shows no response');
    assert.equal(await count(), before);
    const frame = await evil.waitForSelector('iframe');
    const inside = await frame.contentFrame();
    assert.equal(await inside!.locator('#app').count(), 0);
    await evil.close();
  });
});
