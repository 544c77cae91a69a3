// The views of escrow, new jobs, keys, webhooks and nodes in a real Chromium, on a cluster of two nodes. The tests share one
// browser and one server.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { allMigrations } from '../../../src/app.ts';
import { browserSkip, findChromium, type TestBrowser } from '../../helpers/chromium.ts';
import { clusterEnv } from '../../helpers/cluster.ts';
import { migratedDatabase } from '../../helpers/postgres.ts';
import { startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import {
  assertAccessible,
  assertHarmless,
  attack,
  openDashboard,
  serveSite,
  type Dashboard,
} from './areas-kit.ts';

const found = await findChromium();

describe('views to operate a server in a browser', { skip: browserSkip(found) }, () => {
  let board: Dashboard;
  let page: Page;
  let env: Record<string, string>;
  let provider: string;
  let client: string;
  let paidJob: string;

  before(async () => {
    env = { ...clusterEnv, ERRAND_STORE: await migratedDatabase(allMigrations()) };
    const settings = { egress: { allow: ['127.0.0.1'] }, escrow: { minExpiryMs: 1000 } };
    board = await openDashboard(found as TestBrowser, settings, env);
    ({ page } = board);
  });
  after(() => board?.close());

  const button = (name: string | RegExp) => page.getByRole('button', { name });
  const fill = (label: string, text: string) => page.getByLabel(label, { exact: true }).fill(text);
  const stage = (word: string) => page.locator('.view-title .status', { hasText: word }).waitFor();
  const problem = (name: string) => page.locator(`#field-${name}-problem`);

  test('a command is started with a generated form; errors are shown at the field', async () => {
    await board.open('/jobs');
    await page.getByRole('link', { name: 'New job' }).click();
    await fill('Command', 'echo started by a form');
    await page.getByText(/^More fields/).click();
    await fill('Timeout (ms)', 'soon');
    await button('Run').last().click();
    await problem('timeoutMs').getByText('This must be a number.').waitFor();
    await fill('Timeout (ms)', '60000');
    await fill('Environment variables', '1=bad');
    await button('Run').last().click();
    await problem('env').getByText(/1/).waitFor();
    await fill('Environment variables', 'GOOD=1');
    await button('Run').last().click();
    await page.waitForURL(/\/jobs\/job_/);
    await page.locator('.streams .text', { hasText: 'started by a form' }).waitFor();
  });

  test('an escrow job is posted, delivered and approved; the books show it', async () => {
    await board.open('/escrow?tab=wallets');
    for (const name of [attack.slice(0, 50), 'provider']) {
      await fill('New wallet', name);
      await button('Create').click();
      await page.getByRole('table', { name: 'Wallets' }).getByText(name).waitFor();
    }
    const walletRow = page.getByRole('row', { name: /^<img/ });
    await walletRow.getByRole('button', { name: 'Add credit…' }).click();
    await fill('Amount, like 2.50', '20');
    await page.getByRole('dialog').getByRole('button', { name: 'Add credit' }).click();
    await page.getByRole('table', { name: 'Wallets' }).getByText('20.00').waitFor();
    const { wallets } = await board.call<{ wallets: { id: string; name: string }[] }>(
      'GET',
      '/api/wallets',
    );
    provider = wallets.find(({ name }) => name === 'provider')!.id;
    client = wallets.find(({ name }) => name !== 'provider')!.id;
    await board.open('/start?form=post_work');
    await page.locator('#field-provider').fill(provider);
    await page.locator('#field-wallet').fill(client);
    await page.locator('#field-title').fill(attack);
    await page.locator('#field-description').fill(`Write **two** pages. ${attack}`);
    await page.locator('#field-budget').fill('a lot');
    await page.locator('#field-fund').check();
    await button('Post').last().click();
    await problem('budget').getByText('This must be an amount').waitFor();
    await page.locator('#field-budget').fill('2.50');
    await button('Post').last().click();
    await page.waitForURL(/\/escrow\/job_/);
    paidJob = /job_\w+/.exec(page.url())![0];
    await stage('funded');
    await button('Deliver…').click();
    await fill(
      'Content',
      `# Two pages\n\n${attack} [bad](javascript:alert(1)) [good](https://example.com/)`,
    );
    await page.getByRole('dialog').getByRole('button', { name: 'Deliver' }).click();
    await stage('delivered');
    await page.getByText('A payment of 2.50 CREDIT waits for your decision.').waitFor();
    assert.equal(await page.locator('#main a', { hasText: /^bad$/ }).count(), 0);
    await assertHarmless(board);
    await button('Approve…').click();
    await fill('Reason', `good ${attack}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await stage('paid');
    const postings = page.getByRole('table', { name: 'Ledger postings' });
    for (const kind of ['hold', 'release', 'fee']) await postings.getByText(kind).first().waitFor();
    await board.open('/escrow?tab=wallets');
    await button('Verify the books').click();
    await page.getByText('The books are correct').waitFor();
    await assertHarmless(board);
  });

  test('a passed deadline ends a job while it is shown; the list tells who must act', async () => {
    const post = (title: string, more: object) =>
      board.call<{ id: string }>('POST', '/api/work', {
        wallet: client,
        provider,
        budget: '1000000',
        title,
        description: 'text',
        ...more,
      });
    await post('not funded yet', {});
    const { id } = await post('late', {
      fund: true,
      expiresAt: new Date(Date.now() + 6000).toISOString(),
    });
    await board.open('/escrow');
    const mine = page.getByRole('table', { name: 'You must act now' });
    await mine.getByRole('link', { name: 'not funded yet' }).waitFor();
    await page.getByRole('link', { name: 'late' }).click();
    await page.waitForURL((url) => url.pathname.endsWith(id));
    await stage('expired');
    await page.getByRole('table', { name: 'Ledger postings' }).getByText('refund').waitFor();
  });

  test('a key is created, described in words, limits what its session sees, and is revoked', async () => {
    await board.open('/keys');
    await button('New key').click();
    await fill('Name', 'ci');
    await page.getByText(/^More fields/).click();
    await fill('Kinds', 'command');
    await button('Create the key').click();
    await page.getByText('run any command as the user of this server').first().waitFor();
    const key = await page.locator('.command code').innerText();
    const context = await board.browser.newContext();
    const guest = await context.newPage();
    await guest.goto(`${board.site.url}/login`);
    await guest.getByLabel(/API key/).fill(key);
    await guest.getByRole('button', { name: 'Log in' }).click();
    const views = guest.locator('nav[aria-label="Views"]');
    await views.waitFor();
    const names = await views.getByRole('link').allInnerTexts();
    assert.ok(names.includes('New job') && names.includes('Webhooks'), names.join());
    for (const hidden of ['Endpoints', 'Crawls', 'Escrow', 'Keys'])
      assert.ok(!names.includes(hidden), hidden);
    await guest.goto(`${board.site.url}/escrow`);
    await guest.getByText('This view is not available').waitFor();
    await button('I have copied it').click();
    const row = page.getByRole('row', { name: /^ci/ });
    await row.getByRole('button', { name: 'Rotate…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click();
    await page.getByText('The key is shown only once').waitFor();
    assert.notEqual(await page.locator('.command code').innerText(), key);
    await row.getByRole('button', { name: 'Revoke…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('The key was revoked.').waitFor();
    await context.close();
  });

  test('a webhook shows each delivery with its response, and sends one again', async (t) => {
    const receiver = await serveSite(t, ({ isFixed }) => (isFixed ? attack : undefined));
    await board.open('/webhooks');
    await fill('New webhook', receiver.url);
    await button('Create').click();
    await page.getByText('This secret verifies the signatures').waitFor();
    await board.call('POST', '/api/commands', { command: 'true', name: attack });
    const deliveries = page.getByRole('table', { name: 'Deliveries' });
    await deliveries.getByText('404').first().waitFor();
    receiver.fix();
    await deliveries.getByRole('button', { name: 'Send again' }).first().click();
    await deliveries.getByText('delivered').first().waitFor();
    await assertHarmless(board);
  });

  test('nodes are drained and put into service again; a lost node is shown', async (t: TestContext) => {
    const other = await startServer(t, { env });
    await board.open('/nodes');
    const rows = page.locator('tbody tr');
    await until('both nodes are shown', async () => (await rows.count()) === 2);
    const row = rows.filter({ hasNot: page.getByText('this server') });
    await row.getByText('active').waitFor();
    await row.getByRole('button', { name: 'Drain' }).click();
    await row.getByText('drained').waitFor();
    await row.getByRole('button', { name: 'Put into service' }).click();
    await row.getByText('active').waitFor();
    await other.kill();
    await row.getByText('lost').waitFor();
    await row.getByRole('button', { name: 'Forget…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget' }).click();
    await until('one node is left', async () => (await rows.count()) === 1);
  });

  test('the views pass axe in light and dark, and fit into 375 px', async () => {
    await assertAccessible(board, [
      ['/start', '.schema-form'],
      ['/start?form=post_work', '.schema-form'],
      ['/escrow', '#main table'],
      ['/escrow?tab=wallets', '#main table'],
      [`/escrow/${paidJob}`, '#main table'],
      ['/keys', '#main table'],
      ['/webhooks', '#main table'],
      ['/nodes', '#main table'],
    ]);
    assert.deepEqual(board.own.errors, [], 'nothing violates the content policy');
  });
});
