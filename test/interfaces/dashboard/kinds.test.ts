// The views of endpoints and crawls in a real Chromium. The tests share one browser and one server.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { browserSkip, findChromium, type TestBrowser } from '../../helpers/chromium.ts';
import { handlerFile } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';
import {
  assertAccessible,
  assertHarmless,
  attack,
  openDashboard,
  serveSite,
  type Dashboard,
} from './areas-kit.ts';
import { basePath, logIn } from './kit.ts';

const found = await findChromium();

describe('views of kinds in a browser', { skip: browserSkip(found) }, () => {
  let board: Dashboard;
  let page: Page;

  before(async () => {
    board = await openDashboard(found as TestBrowser, {
      egress: { allow: ['127.0.0.1'] },
      web: { browser: found },
    });
    ({ page } = board);
  });
  after(() => board?.close());

  test('an endpoint runs a request from the form and shows its stream and result', async () => {
    await board.open('/endpoints');
    await page.getByText('No endpoints yet').waitFor();
    await board.call('POST', '/api/endpoints', {
      id: 'hello',
      recipe: { module: handlerFile },
      maxWorkers: 1,
    });
    await page.getByRole('link', { name: 'hello' }).click();
    await page.getByRole('tab', { name: 'Request' }).click();
    const send = async (input: string) => {
      await page.getByLabel('Input as JSON').fill(input);
      await page.getByRole('button', { name: 'Send' }).click();
    };
    await send('{"do": ');
    await page.getByText('The input must be JSON').waitFor();
    await send('{"do": "stream", "count": 3, "ms": 50}');
    await page.locator('.chunks', { hasText: '{"index":2}' }).waitFor();
    await page.locator('.response-head').getByText('completed').waitFor();
    await send(JSON.stringify({ text: attack }));
    await page.locator('.json pre', { hasText: 'window.attacked' }).waitFor();
    await assertHarmless(board);
    await page.getByRole('tab', { name: 'Workers' }).click();
    await page.getByRole('table', { name: 'Workers', exact: true }).getByText('idle').waitFor();
    const coldStart = page.locator('.total', { hasText: 'Cold start' });
    assert.match(await coldStart.innerText(), /\d+(ms|\.\ds)[^]*1 start/);
  });

  test('a waiting job shows the reason; pause and purge act on the queue', async () => {
    const run = (input: unknown) => board.call('POST', '/api/endpoints/hello/run', { input });
    await run({ do: 'wait', ms: 600_000 });
    await run({});
    await board.open('/endpoints/hello');
    const reason = page.locator('.reason');
    await reason.getByText('1 worker is busy with other jobs; 1 job is waiting.').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await reason.getByText(/paused/).waitFor();
    await page.getByRole('button', { name: 'Purge…' }).click();
    await page.getByRole('button', { name: 'Cancel them' }).click();
    await page.getByText('1 job cancelled.').waitFor();
    await reason.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.locator('.view-title .status', { hasText: 'running' }).waitFor();
    await page.getByRole('tab', { name: 'Releases' }).click();
    await page.getByText('All workers run version 1.').waitFor();
  });

  test('workers that crash are shown with the reason and their log, as text', async () => {
    const script = `console.error(${JSON.stringify(`cannot load ${attack}`)}); process.exit(7)`;
    await board.call('POST', '/api/endpoints', {
      id: 'broken',
      recipe: { worker: [process.execPath, '-e', script] },
    });
    await board.call('POST', '/api/endpoints/broken/run', { input: {} });
    await board.open('/endpoints/broken');
    await page.locator('.view-title', { hasText: 'workers fail' }).waitFor();
    await page.locator('.reason', { hasText: 'The workers keep dying' }).waitFor();
    await page.locator('.log-line', { hasText: 'cannot load <img' }).waitFor();
    await page.getByRole('table', { name: 'Workers that ended' }).getByText('7').first().waitFor();
    await assertHarmless(board);
  });

  test('a read-only session sees everything and gets no actions', async () => {
    const reader = await logIn(board.browser, board.site, { flags: ['--read-only'] });
    await reader.page.goto(`${board.site.url}/endpoints/broken`);
    await reader.page.locator('.log-line').first().waitFor();
    const { page: view } = reader;
    assert.equal(await view.locator('#main .actions button').count(), 0);
    assert.equal(await view.getByRole('tab', { name: 'Request' }).count(), 0);
    assert.equal(await view.getByRole('link', { name: 'New job' }).count(), 0);
    await reader.context.close();
  });

  test('a crawl shows every URL with its outcome, live, and pauses and resumes', async (t) => {
    const address = await serveSite(t, ({ path, isFixed }) => {
      const links = ['a', 'docs/b', 'docs/c', 'lost'].map(
        (name) => `<a href="/${name}">${name}</a>`,
      );
      if (path === '/lost' && !isFixed) return undefined;
      return `<title>Page ${path} ${escaped}</title><main><h1>On ${path}</h1><p>${escaped} is text in
        <b>bold</b>, <a href="javascript:window.attacked=1">a link</a> and
        <img src="http://127.0.0.1:1/x.png" alt="picture"></p>${links.join(' ')}</main>`;
    });
    const { id } = await board.call('POST', '/api/web/crawls', {
      url: address.url,
      delayMs: 700,
      includeImages: true,
    });
    await board.open('/crawls');
    await page.getByRole('link', { name: address.url }).click();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.view-title .status', { hasText: 'paused' }).waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.locator('.view-title .status', { hasText: 'completed' }).waitFor();
    const lost = page.locator('.page-row', { hasText: 'lost' });
    await lost.getByText('404 · http404').waitFor();
    await page.getByRole('button', { name: 'docs/', exact: false }).first().waitFor();
    await page.getByLabel('Filter URLs, titles and reasons').fill('docs/c');
    await until('one URL is shown', async () => (await page.locator('.page-row').count()) === 1);
    await page.locator('.page-row').click();
    const preview = page.locator('.preview');
    await preview.getByRole('heading', { name: 'On /docs/c' }).waitFor();
    assert.equal(await preview.locator('.markdown strong').innerText(), 'bold');
    await preview.getByRole('link', { name: '[picture: picture]' }).waitFor();
    assert.equal(await preview.locator('a[href^="javascript"]').count(), 0);
    assert.match(await preview.locator('.markdown').innerText(), /<img src=x onerror/);
    await assertHarmless(board);
    // What failed is fetched again; the next crawl reports what changed.
    address.fix();
    await page.getByRole('button', { name: 'Retry failed' }).click();
    await page.getByLabel('Filter URLs, titles and reasons').fill('lost');
    await lost.getByText('fetched').waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByLabel('Download').selectOption('json'),
    ]);
    const { pages } = JSON.parse(await readFile(await download.path(), 'utf8')) as {
      pages: { url: string; outcome: string; markdown?: string }[];
    };
    assert.deepEqual(
      pages.map(({ url, outcome }) => `${outcome} ${new URL(url).pathname}`).toSorted(),
      ['/', '/a', '/docs/b', '/docs/c', '/lost'].map((path) => `fetched ${path}`),
    );
    assert.ok(pages.every(({ markdown }) => markdown?.includes('On /')));
    await board.open(`/crawls/${id as string}`);
  });

  test('a later crawl shows what changed, with screenshots', async (t) => {
    const address = await serveSite(
      t,
      ({ isFixed }) => `<title>One</title><main><h1>One</h1><p>${isFixed ? 'new' : 'old'} words in
        a paragraph that is long enough to be content</p></main>`,
    );
    const { id } = await board.call<{ id: string }>('POST', '/api/web/crawls', {
      url: address.url,
      formats: ['markdown', 'screenshot'],
      delayMs: 0,
    });
    await board.open(`/crawls/${id}`);
    await page.locator('.view-title .status', { hasText: 'completed' }).waitFor();
    address.fix();
    await page.getByRole('button', { name: 'Crawl again and compare' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(id));
    await page.getByRole('button', { name: 'changed 1' }).click();
    await page.locator('.page-row').click();
    await page.locator('.diff .added', { hasText: 'new words' }).waitFor();
    await page.locator('.picture img').waitFor();
    views.push([new URL(page.url()).pathname.replace(basePath, ''), '.page-row']);
  });

  const views: [path: string, ready: string][] = [];

  test('the views pass axe in light and dark, and fit into 375 px', () =>
    assertAccessible(board, [
      ['/endpoints', '#main table'],
      ['/endpoints/hello', '.log-line'],
      ['/endpoints/hello?tab=request', 'textarea'],
      ['/endpoints/broken?tab=releases', '#main table'],
      ['/crawls', '#main table'],
      ...views,
    ]));
});

const escaped = attack.replaceAll('<', '&lt;');
