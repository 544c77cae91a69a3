// The example of docs/escrow.md on the command line: two wallets and one escrow job from start to end, then an operator's check.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

type Json = ReturnType<typeof JSON.parse>;

test('an escrow job completes on the command line, an operator check decides another one, and webhooks report both', async (t) => {
  const received: { owner: string; type: string }[] = [];
  const ear = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const { type } = JSON.parse(text) as { type: string };
      received.push({ owner: request.url!.slice(1), type });
      response.end();
    });
  });
  await new Promise<void>((resolve) => ear.listen(0, '127.0.0.1', resolve));
  t.after(() => (ear.closeAllConnections(), ear.close()));
  const { port } = ear.address() as { port: number };
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const checks = { polite: { command: 'grep -q please' } };
  const egress = { allow: [`127.0.0.1:${port}`] };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ escrow: { checks }, egress }));
  const server = await startServer(t, { home });
  const run = async (...args: string[]): Promise<Json> => {
    const answer = await server.cli(...args, '--json');
    assert.equal(answer.code, 0, `${args.join(' ')}: ${answer.stderr}${answer.stdout}`);
    return answer.json();
  };
  const client = await run('wallet', 'create', 'client');
  const provider = await run('wallet', 'create', 'provider', '--with-key');
  await run('wallet', 'mint', client.id, '25.00', 'first-credit');
  await run('wallet', 'mint', client.id, '25.00', 'first-credit');
  await run('webhook', 'create', `http://127.0.0.1:${port}/owner`, '--events', '*');

  const rule = { type: 'json_schema', schema: { type: 'object', required: ['words'] } };
  const common = ['--wallet', client.id, '--description', 'Count them.', '--fund'];
  const post = ['work', 'post', provider.id, '2.00', 'Count the words', ...common];
  const job = await run(...post, '--rule', JSON.stringify(rule), '--idempotency-key', 'words-1');
  assert.equal(job.stage, 'funded');
  const again = await run(...post, '--rule', JSON.stringify(rule), '--idempotency-key', 'words-1');
  assert.equal(again.id, job.id);

  const { work } = await run('work', 'list', '--wallet', provider.id, '--stage', 'funded');
  assert.equal(work[0].id, job.id);
  assert.deepEqual(work[0].availableActions, ['decline', 'submit'].toSorted());
  const spec = await run('work', 'show', job.id, '--wallet', provider.id);
  assert.match(spec.description, /Count them\./);
  const delivered = ['work', 'submit', job.id, '--wallet', provider.id];
  await run(...delivered, '--content', '{"words":1234}');
  const done = await until('the rule has approved or rejected', async () => {
    const shown = await run('show', job.id);
    return shown.stage === 'completed' ? shown : undefined;
  });
  assert.equal(done.status, 'completed');

  const key = { authorization: `Bearer ${provider.key}` };
  const checked = await run(...post, '--rule', '{"type":"command","check":"polite"}');
  const submitted = await server.api(
    'POST',
    `/api/work/${checked.id}/submit`,
    { content: 'Count them, please.' },
    key,
  );
  assert.equal(submitted.status, 200, submitted.text);
  const second = await until('the check has run', async () => {
    const shown = await run('show', checked.id);
    return shown.stage === 'completed' ? shown : undefined;
  });
  assert.match(second.evaluation.reason, /command polite: exit code 0 \(job_/);
  const rude = await run(...post, '--rule', '{"type":"command","check":"polite"}', '--repeat');
  const bad = { content: 'Count them.' };
  await server.api('POST', `/api/work/${rude.id}/submit`, bad, key);
  await until('the check has run', async () => (await run('show', rude.id)).stage === 'rejected');

  const { wallets } = await run('wallet', 'list');
  const balance = (id: string) => wallets.find((wallet: Json) => wallet.id === id).balance;
  assert.equal(balance(provider.id), '3.72');
  assert.equal(balance(client.id), '21.00');

  const milestones = [
    { title: 'draft', amount: '0.50' },
    { title: 'the rest, all of it', amount: '1.50' },
  ];
  const parts = await run(...post, '--milestones', JSON.stringify(milestones), '--repeat');
  assert.deepEqual(
    parts.milestones.map(({ title }: Json) => title),
    milestones.map(({ title }) => title),
  );
  await run('work', 'submit', parts.id, '--wallet', provider.id, '--content', 'draft');
  const seen = JSON.stringify([{ criterion: 'short, plain', met: true }]);
  const judge = ['work', 'evaluate', parts.id, 'approve', 'good', '--wallet', client.id];
  const judged = await run(...judge, '--checks', seen);
  assert.equal(judged.held, '1500000');
  await run('work', 'decline', parts.id, '--wallet', provider.id);
  const broken = await server.cli(...post, '--milestones', '[{"title"');
  assert.equal(broken.code, 2);
  assert.match(broken.stderr, /--milestones is not valid JSON/);
  const books = await run('escrow', 'verify');
  assert.deepEqual(books.problems, []);
  const types = await until('the webhooks arrive', () => {
    const all = new Set(received.map(({ type }) => type));
    const wanted = ['funded', 'delivered', 'completed', 'rejected'];
    return wanted.every((type) => [...all].some((one) => one.endsWith(type))) ? all : undefined;
  });
  assert.ok(types.size >= 4);
});
