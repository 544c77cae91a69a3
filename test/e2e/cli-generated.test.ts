// Commands generated from operations against a real server: send, signal, webhook, key, cancel, retry and group help.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { homeWith } from '../helpers/folder.ts';
import { startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

test('send types text and signal sends a signal; both print the result', async () => {
  const { cli } = await sharedServer();
  const line = `trap 'echo usr1' USR1; echo up; while read -r x || [ $? -gt 128 ]; do echo "<$x>"; done; exit 4`;
  const started = await cli('run', '--detach', '--stdin', 'open', '--shell', line);
  const id = started.stdout.trim();
  await until('the job is up', async () => (await cli('logs', id)).stdout.includes('up'));
  const typed = await cli('send', id, 'hello');
  assert.equal(typed.code, 0, typed.stderr);
  assert.match(typed.stdout, /<hello>/);
  assert.equal((await cli('signal', id, 'USR1')).code, 0);
  await until('the signal arrived', async () => (await cli('logs', id)).stdout.includes('usr1'));
  const end = await cli('send', id, '--eof');
  assert.match(end.stdout, new RegExp(`^${id} failed · exit code 4`));
  const late = await cli('send', id, 'x');
  assert.deepEqual([late.code, late.stdout], [5, '']);
  assert.match(late.stderr, /has ended \(failed\); nothing was sent/);
  assert.equal((await cli('wait', id)).code, 1, 'it did not complete');
});

test('webhooks are created, delivered, listed and deleted; keys are created, listed and revoked', async (t) => {
  const bodies: string[] = [];
  const receiver = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => bodies.push(chunk.toString()));
    request.on('end', () => response.end());
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  t.after(() => receiver.close());
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const home = homeWith(t, { egress: { allow: ['127.0.0.1'] } });
  const { cli } = await startServer(t, { home });
  const inner = await cli('webhook', 'create', 'http://169.254.169.254/latest');
  assert.deepEqual([inner.code, /egress\.allow/.test(inner.stderr)], [3, true], inner.stderr);
  const made = await cli('webhook', 'create', url, '--events', 'failed', '--json');
  assert.equal(made.code, 0, made.stderr);
  const { id, secret } = made.json<{ id: string; secret: string }>();
  assert.match(secret, /^whsec_/);
  assert.equal((await cli('run', '--shell', 'exit 3')).code, 3);
  await until('the webhook was called', () => bodies.length > 0);
  assert.match(bodies[0]!, /"exitCode":3|"failed"/);
  assert.match((await cli('webhook', 'list')).stdout, new RegExp(id));
  await until('the delivery is recorded', async () =>
    /200/.test((await cli('webhook', 'deliveries', id)).stdout),
  );
  assert.equal((await cli('webhook', 'delete', id)).code, 0);
  assert.doesNotMatch((await cli('webhook', 'list')).stdout, new RegExp(id));

  const key = (await cli('key', 'create', 'ci', '--scopes', 'read', '--json')).json<{
    id: string;
    key: string;
  }>();
  const listed = (await cli('key', 'list')).stdout;
  assert.match(listed, new RegExp(key.id));
  assert.ok(!listed.includes(key.key), 'a key is shown once');
  assert.equal((await cli('key', 'revoke', key.id)).code, 0);
});

test('cancel and retry accept several jobs and continue after a failure', async () => {
  const { cli } = await sharedServer();
  const start = async () => (await cli('run', '--detach', '--', 'sleep', '300')).stdout.trim();
  const [a, b, c] = [await start(), await start(), await start()];
  const none = 'job_0000000000000000';
  const cancelled = await cli('cancel', a, none, b, a, b, '--reason', 'enough');
  assert.equal(cancelled.code, 4, 'the exit code of the failed call');
  assert.equal(cancelled.stdout, `${a} cancelled\n${b} cancelled\n`);
  assert.match(cancelled.stderr, new RegExp(`^errand: ${none}: Job ${none} does not exist`));
  const events = await cli('events', b);
  assert.match(events.stdout, /enough/, 'a flag applies to all jobs');
  assert.match(
    (await cli('stats')).stdout,
    /^command, queue default: \d+ submitted, .*\d cancelled/m,
  );

  const retried = await cli('retry', a, b, '--json');
  assert.equal(retried.code, 0, retried.stdout);
  const lines = retried.stdout.trim().split('\n');
  const views = lines.map((line) => JSON.parse(line) as { id: string; status: string });
  assert.deepEqual(
    views.map(({ id }) => id),
    [a, b],
  );
  const mixed = await cli('cancel', '--json', a, b, c, none);
  assert.equal(mixed.code, 4);
  const results = mixed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  assert.partialDeepStrictEqual(results, [
    { id: a, status: 'cancelled' },
    { id: b, status: 'cancelled' },
    { id: c, status: 'cancelled' },
    { id: none, error: { code: 'notFound' } },
  ]);
  const alone = await cli('cancel', '--json', none);
  assert.deepEqual(Object.keys(alone.json()), ['error'], 'a single job has the usual output');
  assert.match((await cli('cancel', '--help')).stdout, /^Usage: errand cancel <id…>/);
  assert.equal(
    (await cli('pin', a, b)).code,
    2,
    'a second argument is refused where one is expected',
  );
});

test('help of a command group lists its commands', async () => {
  const { cli } = await sharedServer();
  const { stdout: all } = await cli('help', 'all');
  const verbs = [...all.matchAll(/^ {2}([a-z-]+) ([a-z-]+) {2,}(\S.*)$/gm)];
  const nouns = new Set(verbs.map(([, noun]) => noun!));
  assert.ok(nouns.has('queue') && nouns.has('endpoint') && nouns.has('key'), [...nouns].join());
  for (const noun of nouns) {
    const shown = await cli('help', noun);
    assert.equal(shown.code, 0, shown.stderr);
    for (const [, , verb, summary] of verbs.filter((each) => each[1] === noun)) {
      const line = new RegExp(`^  (errand )?${noun} ${verb} +\\S`, 'm');
      assert.match(shown.stdout, line);
      assert.ok(shown.stdout.includes(summary!), `${noun} ${verb}`);
    }
  }
  const asked = await cli('queue', '--help');
  assert.deepEqual([asked.code, asked.stdout], [0, (await cli('help', 'queue')).stdout]);
  const bare = await cli('queue');
  assert.deepEqual([bare.code, /errand queue set/.test(bare.stderr)], [2, true]);
  assert.equal((await cli('help', 'queue', 'nothing')).code, 2);
});
