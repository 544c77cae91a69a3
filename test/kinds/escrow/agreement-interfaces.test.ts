// Every interface refuses to fund a raise by the provider: HTTP, MCP, the command line, CardZero's routes and tools.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { jobOf, openMarket, type Json } from '../../dialects/cardzero/market.ts';
import { bin, serverEnv } from '../../helpers/server.ts';

test('no interface and no dialect funds a raise that the client did not name, or posts above the limit', async (t) => {
  const market = await openMarket(t, [], { maxOpenWork: 2 });
  const { server } = market;
  const client = await market.party('client', '500.00');
  const provider = await market.party('provider');
  const as = (key: string) => ({ authorization: `Bearer ${key}` });
  const api = (key: string, path: string, body: unknown) => server.api('POST', path, body, as(key));
  const balance = async () =>
    (await market.api('GET', `/api/wallets?wallet=${client.id}`)).wallets[0].balance as string;

  const order = {
    provider: provider.id,
    budget: '2000000',
    title: 'Translate',
    description: 'To French.',
    idempotencyKey: 'one',
  };
  const { id } = (await api(client.key, '/api/work', order)).json<Json>();
  const raise = { budget: '99000000' };
  assert.equal((await api(provider.key, `/api/work/${id}/counter`, raise)).status, 200);

  const blind = await api(client.key, `/api/work/${id}/fund`, {});
  assert.deepEqual([blind.status, blind.json<Json>().code], [409, 'budgetChanged']);
  const again = await api(client.key, '/api/work', { ...order, fund: true });
  assert.deepEqual([again.status, again.json<Json>().code], [409, 'budgetChanged']);

  const typed = await server.cli('work', 'fund', id, '--wallet', client.id);
  assert.equal(typed.code, 5);
  assert.match(typed.stderr, /99\.00.*agreed to 2\.00/s);
  assert.match(typed.stderr, /`errand work fund` with --expected-budget 99\.00/);

  const mcp = await tools(t, server.home, ['--toolsets', 'escrow']);
  const refused = await mcp('fund_work', { id, wallet: client.id });
  assert.ok(refused.isError);
  assert.match(refused.text, /expectedBudget "99000000"/);
  const reposted = await mcp('post_work', { ...order, fund: true, wallet: client.id });
  assert.ok(reposted.isError, reposted.text);

  const cardzero = await tools(t, server.home, ['--dialect', 'cardzero'], client.id);
  const { jobId } = (await market.call(client, 'POST', '/jobs', jobOf(provider))).body;
  await api(provider.key, `/api/work/${jobId}/counter`, raise);
  for (const job of [id, jobId]) {
    const fund = await market.call(client, 'POST', `/jobs/${job}/fund`);
    assert.deepEqual([fund.status, fund.body.error], [409, 'BUDGET_CHANGED']);
    const tool = await cardzero('fund_job', { jobId: job });
    assert.match(tool.text, /^Fund job failed: \[BUDGET_CHANGED\]/);
  }
  // CardZero's limit per job applies to every offer for a job created there.
  const above = await api(provider.key, `/api/work/${jobId}/counter`, { budget: '100000001' });
  assert.equal(above.json<Json>().code, 'maxBudgetExceeded');
  assert.equal(await balance(), '500.00');

  // Two jobs are open, and that is the limit.
  const third = { ...order, idempotencyKey: 'three' };
  const full = await api(client.key, '/api/work', third);
  assert.deepEqual([full.status, full.json<Json>().code], [429, 'limitExceeded']);
  const flags = ['--description', 'To French.', '--wallet', client.id];
  const post = await server.cli('work', 'post', provider.id, '3.00', 'Translate', ...flags);
  assert.equal(post.code, 6, post.stderr);
  assert.match(post.stderr, /has 2 open jobs that are not funded, which is the maximum\./);
  assert.match(post.stderr, /`errand work fund`.*`errand work decline`.*escrow\.maxOpenWork/s);
  const posted = await mcp('post_work', { ...third, wallet: client.id });
  assert.ok(posted.isError);
  assert.match(posted.text, /2 open jobs.*fund_work.*decline_work.*escrow\.maxOpenWork/s);
  const route = await market.call(client, 'POST', '/jobs', jobOf(provider, { title: 'Third' }));
  assert.deepEqual([route.status, route.body.error], [429, 'RATE_LIMITED']);
  const tool = await cardzero('create_job', jobOf(provider, { title: 'Third' }));
  assert.match(tool.text, /^Create job failed: \[RATE_LIMITED\].*2 open jobs/s);

  const named = { expectedBudgetUsdc: '99000000' };
  const paid = await market.call(client, 'POST', `/jobs/${jobId}/fund`, named);
  assert.equal(paid.status, 200, paid.text);
  assert.equal(
    (await market.call(undefined, 'GET', `/jobs/${jobId}`)).body.budget_usdc,
    '99000000',
  );
  const spec = await market.call(undefined, 'GET', `/jobs/${jobId}/spec`);
  assert.equal(spec.body.budget.amount, '99000000');
  const accepted = await mcp('fund_work', { id, wallet: client.id, expectedBudget: '99000000' });
  assert.ok(!accepted.isError, accepted.text);
  assert.equal(await balance(), '302.00');

  // Both jobs are funded: another amount is a mistake of the caller, on every interface.
  const other = { id, wallet: client.id, expectedBudget: '98000000' };
  const mistaken = await mcp('fund_work', other);
  assert.ok(mistaken.isError);
  assert.match(mistaken.text, /was funded with 99\.00, but this call expected 98\.00\./);
  const direct = await api(client.key, `/api/work/${id}/fund`, { expectedBudget: '98000000' });
  assert.deepEqual([direct.status, direct.json<Json>().code], [409, 'budgetChanged']);
  const amount = ['--expected-budget', '98', '--wallet', client.id];
  const command = await server.cli('work', 'fund', id, ...amount);
  assert.equal(command.code, 5, command.stderr);
  assert.match(command.stderr, /use --expected-budget 99\.00/);
  const changed = { expectedBudgetUsdc: '98000000' };
  const dialect = await market.call(client, 'POST', `/jobs/${jobId}/fund`, changed);
  assert.deepEqual([dialect.status, dialect.body.error], [409, 'BUDGET_CHANGED']);
  assert.equal(await balance(), '302.00');
});

async function tools(t: TestContext, home: string, flags: string[], wallet?: string) {
  const mcp = new Client({ name: 'test', version: '1' });
  t.after(() => mcp.close());
  const env = serverEnv(home, wallet === undefined ? {} : { CARDZERO_WALLET_ID: wallet });
  await mcp.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [bin, 'mcp', ...flags],
      env: env as Record<string, string>,
    }),
  );
  return async (name: string, input: Record<string, unknown>) => {
    const answer = await mcp.callTool({ name, arguments: input });
    const [content] = answer.content as { text: string }[];
    return { text: content!.text, isError: answer.isError === true };
  };
}
