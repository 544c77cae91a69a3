// The dashboard in a real Chromium against the real server, behind a proxy with a base path. The tests share one browser and
// one server.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { browserSkip, findChromium, type TestBrowser } from '../../helpers/chromium.ts';
import { isDeep } from '../../helpers/deep.ts';
import { until } from '../../helpers/until.ts';
import { violations } from './axe.ts';
import { logIn, loginAddress, shareDashboard, startJob, type LoggedIn, type Site } from './kit.ts';

const found = await findChromium();
const lineCount = 100_000;
const logBytes = isDeep ? 1_000_000_000 : 20_000_000;
/** Five times the target of one second: test machines are loaded. */
const maxOpenMs = 5000;
const maxHeapBytes = 200_000_000;

describe('dashboard in a browser', { skip: browserSkip(found) }, () => {
  let browser: Browser;
  let site: Site;
  let own: LoggedIn;
  let page: Page;

  shareDashboard(found as TestBrowser, (opened) => {
    ({ browser, site, own } = opened);
    ({ page } = own);
  });

  const start = (...args: string[]) => startJob(site, ...args);
  const open = (path: string) => page.goto(site.url + path);
  const row = (id: string) => page.locator(`tr[data-id="${id}"]`);
  const statusText = () => page.locator('.job-title .status').innerText();

  test('a code logs in once and is removed from the address', async () => {
    assert.equal(page.url(), `${site.url}/jobs`);
    const address = await loginAddress(site);
    const context = await browser.newContext();
    const other = await context.newPage();
    await other.goto(address);
    await other.waitForSelector('nav[aria-label="Views"]');
    await context.clearCookies();
    await other.goto(address);
    await other.waitForSelector('.problem');
    assert.doesNotMatch(other.url(), /#/);
    await context.close();
  });

  test('an empty list shows a command; a job of the command line appears without a reload', async () => {
    await open('/');
    await page.getByText('No jobs yet').waitFor();
    const id = await start('--name', 'first', '--tag', 'ci', '--shell', 'echo hello; exit 3');
    await row(id).getByText('failed 3').waitFor();
    await row(id).getByText('first').click();
    await page.waitForURL(`${site.url}/jobs/${id}`);
    await page.locator('.streams .text', { hasText: 'hello' }).waitFor();
    assert.match(await page.title(), /^failed · first/);
  });

  test('the filter is in the address, survives a reload, and completes words', async () => {
    const second = await start('--name', 'second', '--shell', 'true');
    await open('/jobs');
    await row(second).waitFor();
    await page.keyboard.press('/');
    await page.locator('#filter:focus').waitFor();
    for (const [typed, offered] of [
      ['sta', 'status:'],
      ['fai', 'failed'],
    ] as const) {
      await page.keyboard.type(typed);
      await page.getByRole('option', { name: offered }).first().waitFor();
      await page.keyboard.press('Tab');
    }
    await page.waitForURL((url) => url.searchParams.get('q') === 'status:failed');
    await until(
      'only the failed job is shown',
      async () => (await visibleNames(page)).join() === 'first',
    );
    await page.reload();
    await until(
      'the filter is still applied',
      async () => (await visibleNames(page)).join() === 'first',
    );
    const id = await start('--name', 'third', '--shell', 'exit 1');
    await page.getByRole('button', { name: '1 new' }).click();
    await row(id).waitFor();
  });

  test('the keyboard moves and opens; the palette and a pasted id lead to a job', async () => {
    await newestId(page);
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/jobs\/job_/);
    const opened = page.url();
    const other = await start('--name', 'palette', '--shell', 'true');
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').locator('input:focus').waitFor();
    await page.keyboard.type('palette');
    await page.getByRole('option', { name: /^palette (queued|running|completed)/ }).click();
    await page.waitForURL((url) => url.pathname.endsWith(other));
    const id = /job_\w+/.exec(opened)![0];
    await page.evaluate(`{
      const clipboardData = new DataTransfer();
      clipboardData.setData('text', ' ${id} ');
      document.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
    }`);
    await page.waitForURL((url) => url.pathname.endsWith(id));
  });

  test('it follows 100,000 lines, pauses on scroll, and searches the whole output', async () => {
    const id = await start(
      '--name',
      'long',
      '--shell',
      `seq -f 'line %.0f' 1 ${lineCount}; sleep 600`,
    );
    await open(`/jobs/${id}?tab=output`);
    await page
      .locator(`.streams .number[data-number="${lineCount}"]`)
      .waitFor({ state: 'attached' });
    const shown = await page.locator('.streams .block').last().innerText();
    assert.match(shown, new RegExp(`line ${lineCount}\\s*$`));
    await page.locator('.streams .lines').hover();
    await page.mouse.wheel(0, -4000);
    await page.getByText('· paused').waitFor();
    await page.getByRole('button', { name: 'Follow' }).click();
    await page.getByText('· following').waitFor();
    await page.getByLabel('Search the whole output').fill('line 4321');
    await page.getByRole('button', { name: 'line 43210', exact: false }).first().waitFor();
    await page.locator('.found button.line', { hasText: /^line 4321$/ }).click();
    await page.locator('.streams .marked', { hasText: /^line 4321\s*$/ }).waitFor();
    await page.locator('.streams .number[data-number="4321"]').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await until('the job is cancelled', async () => (await statusText()) === 'cancelled');
  });

  test('a large log opens quickly wherever one looks, and the heap stays small', async () => {
    const line = 'a line of a log that is not short and not long either, with some words in it';
    const id = await start('--name', 'large', '--shell', `yes '${line}' | head -c ${logBytes}`);
    assert.equal((await site.server.cli('wait', id)).code, 0);
    await open('/jobs');
    await row(id).waitFor();
    const begin = Date.now();
    await row(id).getByText('large', { exact: true }).click();
    await page.locator('.streams .line').last().waitFor();
    const openMs = Date.now() - begin;
    assert.ok(openMs < maxOpenMs, `opened in ${openMs} ms`);
    await page.locator('.streams .lines').hover();
    for (let i = 0; i < 60; i++) await page.mouse.wheel(0, -3000);
    for (const key of ['Home', 'End', 'PageUp', 'PageUp']) {
      await page.getByLabel('Position in the output').press(key);
      await page.locator('.streams .line', { hasText: line }).first().waitFor();
    }
    const cdp = await own.context.newCDPSession(page);
    await cdp.send('Performance.enable');
    const { metrics } = await cdp.send('Performance.getMetrics');
    const heapBytes = metrics.find(({ name }) => name === 'JSHeapUsedSize')!.value;
    assert.ok(heapBytes < maxHeapBytes, `${heapBytes} bytes`);
    await cdp.detach();
  });

  test('a failed job shows its relevant lines in colour and is retried', async () => {
    const id = await start(
      '--name',
      'flaky',
      '--shell',
      String.raw`printf 'fine\n\033[31mFAIL\033[0m a.test.ts:14: error: expected 21, received 20\n'; exit 1`,
    );
    await open(`/jobs/${id}`);
    const line = page.locator('.found .text', { hasText: 'expected 21' });
    await line.waitFor();
    assert.equal(await line.locator('span').first().innerText(), 'FAIL');
    assert.equal(
      await line
        .locator('span')
        .first()
        .evaluate((e) => e.style.color),
      'rgb(255, 132, 120)',
    );
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText('attempt 2').waitFor();
    await until('it failed again', async () => (await statusText()) === 'failed 1');
  });

  test('a terminal runs a Python session and passes its size on', async (t) => {
    if ((await site.server.cli('run', '--', 'python3', '--version')).code !== 0)
      return t.skip('no Python');
    const id = await start('--tty', '--name', 'python', '--', 'python3', '-q');
    await open(`/jobs/${id}`);
    const rows = page.locator('.xterm-rows');
    await rows.getByText('>>>').first().waitFor();
    await page.locator('.xterm').click();
    await page.keyboard.type('import os; print("columns", os.get_terminal_size().columns, 6 * 7)');
    await page.keyboard.press('Enter');
    const columns = async () =>
      [...(await rows.innerText()).matchAll(/columns\s(\d+)\s42/g)].map(([, n]) => n);
    const [wide] = await until('Python printed', async () =>
      (await columns()).length > 0 ? columns() : undefined,
    );
    await page.setViewportSize({ width: 640, height: 700 });
    await page.getByText(/^Terminal \d+/).waitFor();
    await until(
      'the size changed',
      async () => !(await page.locator('.terminal .output-foot').innerText()).includes(`${wide} ×`),
    );
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await until('Python sees the new size', async () => new Set(await columns()).size === 2);
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.keyboard.press('Control+d');
    await until('Python ended', async () => (await statusText()).startsWith('completed'));
    assert.deepEqual(own.errors, [], 'nothing violates the content policy');
  });

  test('names, tags, output and errors are text, and only http links are links', async () => {
    const attack = '<img src=x onerror="window.attacked=1">';
    const link = (uri: string, text: string) => `\\033]8;;${uri}\\033\\\\${text}\\033]8;;\\033\\\\`;
    const script = `printf '${attack} ${link('javascript:window.attacked=2', 'bad')} ${link('https://example.com/', 'good')}\\n<script>window.attacked=3</script> error: ${attack}\\n'; exit 1`;
    const id = await start('--name', attack, '--tag', attack, '--shell', script);
    await open('/jobs');
    await row(id).waitFor();
    await open(`/jobs/${id}`);
    await page.locator('.streams .line a', { hasText: 'good' }).waitFor();
    assert.equal(await page.locator('.streams .line a').count(), 1);
    const anchor = page.locator('.streams .line a');
    assert.equal(await anchor.getAttribute('href'), 'https://example.com/');
    assert.match((await anchor.getAttribute('rel'))!, /noopener/);
    for (const tab of ['Input', 'Events', 'Related'])
      await page.getByRole('tab', { name: tab }).click();
    assert.equal(await page.evaluate('window.attacked'), undefined);
    assert.equal(await page.locator('#app img, #app script').count(), 0);
  });

  test('two tabs share one stream, and each shows every change', async () => {
    await open('/jobs');
    const second = await own.context.newPage();
    await second.goto(`${site.url}/jobs`);
    const id = await start('--name', 'shared', '--shell', 'true');
    await row(id).getByText('completed').waitFor();
    await second.locator(`tr[data-id="${id}"]`).getByText('completed').waitFor();
    // The stream of a page that was left closes a moment later.
    await until('one stream is left', () => site.streams() === 1);
    await second.close();
  });

  test('after kill -9 of the server it reconnects; nothing is missing or twice', async () => {
    await open('/jobs');
    await page.waitForSelector('#job-rows tbody tr');
    const running = await start('--name', 'survivor', '--shell', 'sleep 3; echo done');
    await row(running).getByText('running').waitFor();
    await site.server.kill();
    await page.getByText('Reconnecting…').waitFor();
    await site.restart();
    const ids = [
      running,
      ...(await Promise.all(
        [1, 2, 3].map((n) => start('--name', `after-${n}`, '--shell', 'true')),
      )),
    ];
    await page.getByText('Reconnecting…').waitFor({ state: 'hidden' });
    for (const id of ids) await row(id).getByText('completed').waitFor();
    const shown = await page
      .locator('tr[data-id]')
      .evaluateAll((rows) => rows.map((one) => one.getAttribute('data-id')));
    assert.equal(new Set(shown).size, shown.length);
  });

  test('a deleted job stays readable where it is open and leaves the list', async () => {
    const id = await start('--name', 'doomed', '--shell', 'true');
    await page.setViewportSize({ width: 1280, height: 720 });
    await open(`/jobs/${id}`);
    await page.getByRole('button', { name: 'Run again' }).waitFor();
    assert.equal((await site.server.api('DELETE', `/api/jobs/${id}`)).status, 200);
    await page.getByText('This job was deleted.').waitFor();
    await until('the row is gone', async () => (await row(id).count()) === 0);
  });

  test('a read-only session shows everything and offers no action', async () => {
    const reader = await logIn(browser, site, { flags: ['--read-only'] });
    await reader.page.getByText('read-only').waitFor();
    await reader.page.waitForSelector('tr[data-id]');
    assert.equal(await reader.page.locator('tr[data-id] input').count(), 0);
    await reader.page.locator('tr[data-id] a').first().click();
    await reader.page.getByRole('button', { name: 'Copy link' }).waitFor();
    assert.deepEqual(
      await reader.page
        .locator('.actions button')
        .allInnerTexts()
        .then((texts) => texts.map((text) => text.split('\n')[0])),
      ['Copy link'],
    );
    await reader.context.close();
  });

  test('a revoked session asks for a login and then continues where it was', async () => {
    const guest = await logIn(browser, site);
    await guest.page.goto(`${site.url}/jobs?q=status%3Afailed`);
    await guest.page.waitForSelector('tr[data-id]');
    const { sessions } = (await guest.page.evaluate(async () =>
      (await fetch('../errand/api/sessions')).json(),
    )) as { sessions: { id: string; isCurrent: boolean }[] };
    const { id } = sessions.find(({ isCurrent }) => isCurrent)!;
    assert.equal((await site.server.api('DELETE', `/api/sessions/${id}`)).status, 200);
    await guest.page.getByText('The session ended').waitFor();
    await guest.page.getByLabel('Or log in with an API key').fill(site.server.key);
    await guest.page.getByRole('button', { name: 'Log in' }).click();
    await guest.page.getByText('The session ended').waitFor({ state: 'hidden' });
    assert.match(guest.page.url(), /q=status%3Afailed/);
    await guest.page.waitForSelector('tr[data-id]');
    await guest.context.close();
  });

  test('every view passes axe, in light and dark', async () => {
    const viewer = await logIn(browser, site);
    const id = await newestId(viewer.page);
    const wrong: string[] = [];
    const check = async (path: string, ready: string) => {
      await viewer.page.goto(site.url + path);
      await viewer.page.waitForSelector(ready);
      wrong.push(...(await violations(viewer.page)).map((text) => `${path}: ${text}`));
    };
    const others = ['/overview', '/queues', '/connect', '/sessions', `/jobs/${id}?tab=events`];
    for (const path of others) await check(path, '#main :is(table, .panel)');
    await viewer.page.emulateMedia({ colorScheme: 'dark' });
    for (const path of ['/jobs', `/jobs/${id}`]) await check(path, '#main :is(table, .job-head)');
    await viewer.page.emulateMedia({ colorScheme: 'light' });
    for (const path of ['/jobs', `/jobs/${id}`]) await check(path, '#main :is(table, .job-head)');
    await viewer.context.clearCookies();
    await check('/login', '.login-box');
    await viewer.context.close();
    assert.deepEqual(wrong, []);
  });

  test('charts work in a browser that was started without a locale', async () => {
    const viewer = await logIn(browser, site);
    await viewer.page.addInitScript(() => {
      const language = { get: () => 'en-US@posix', configurable: true };
      Object.defineProperty(Navigator.prototype, 'language', language);
    });
    await viewer.page.goto(`${site.url}/overview`);
    await viewer.page.waitForSelector('.uplot canvas');
    await viewer.context.close();
  });

  test('at 375 px nothing is wider than the screen', async () => {
    await page.setViewportSize({ width: 375, height: 700 });
    const id = await newestId(page);
    for (const path of ['/jobs', `/jobs/${id}`, '/overview', '/queues', '/connect', '/sessions']) {
      await open(path);
      await page.waitForSelector('#main :is(table, .job-head, .panel)');
      const width = await page.evaluate<number>(`document.querySelector('#main').scrollWidth`);
      assert.ok(width <= 375, `${path} is ${width} px wide`);
    }
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  const newestId = async (where: Page): Promise<string> => {
    await where.goto(`${site.url}/jobs`);
    await where.waitForSelector('tr[data-id]');
    return (await where.locator('tr[data-id]').first().getAttribute('data-id'))!;
  };
});

const visibleNames = (page: Page): Promise<string[]> =>
  page.locator('tr[data-id] .c-job a').allInnerTexts();
