// Batches on the command line, and the same batch submitted twice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { handlerFile } from '../../../helpers/endpoint.ts';
import { startServer } from '../../../helpers/server.ts';

test('the command line runs, shows, lists, reads and cancels a batch', async (t) => {
  const server = await startServer(t);
  const recipe = JSON.stringify({ module: handlerFile });
  await server.cli('endpoint', 'save', 'many', '--recipe', recipe, '--max-workers', '1');
  const inputs = ['{"value":1}', '{"value":2}', '{"do":"throw"}'];
  const run = await server.cli('batch', 'run', 'many', ...inputs, '--name', 'three', '--json');
  const { id, counts } = run.json<{ id: string; counts: { total: number } }>();
  assert.deepEqual([run.code, counts.total], [0, 3], run.stderr);
  await server.cli('wait', id);

  const shown = await server.cli('batch', 'show', id);
  assert.match(shown.stdout, new RegExp(`^${id}  \\S+  3 jobs, 2 completed, 1 failed\n$`));
  const { batches } = (await server.cli('batch', 'list', 'many', '--json')).json<{
    batches: { id: string; name: string }[];
  }>();
  assert.deepEqual(
    batches.map((batch) => [batch.id, batch.name]),
    [[id, 'three']],
  );
  assert.match((await server.cli('batch', 'list', 'many')).stdout, /three.*3 jobs/);
  const results = await server.cli('batch', 'jobs', id, '--limit', '2', '--json');
  const page = results.json<{ jobs: { output: unknown }[]; hasMore: boolean }>();
  assert.deepEqual(
    [page.jobs.map(({ output }) => output), page.hasMore],
    [[{ value: 1 }, { value: 2 }], true],
  );
  assert.match((await server.cli('batch', 'jobs', id)).stdout, /\{"value":2\}/);

  await server.cli('endpoint', 'save', 'none');
  const list = JSON.stringify([{ value: 1 }, { value: 2 }]);
  const waiting = await server.cli('batch', 'run', 'none', '--inputs', list, '--json');
  const other = waiting.json<{ id: string }>().id;
  const cancelled = await server.cli('batch', 'cancel', other);
  assert.equal(cancelled.stdout, `${other}  cancelled  2 jobs, 2 cancelled\n`);

  const unknown = await server.cli('batch', 'show', 'job_0000000000000000');
  assert.equal(unknown.code, 4, unknown.stderr);
  const empty = await server.cli('batch', 'run', 'none');
  assert.match(empty.stderr, /<inputs> is required/);
  await server.cli('endpoint', 'delete', 'many');
});

test('an idempotency key returns the same batch only for the same requests', async (t) => {
  const server = await startServer(t);
  await server.cli('endpoint', 'save', 'none');
  const run = (value: number) =>
    server.api('POST', '/api/endpoints/none/batches', {
      inputs: [{ value }],
      idempotencyKey: 'once',
    });
  const first = (await run(1)).json<{ id: string }>();
  const again = (await run(1)).json<{ id: string; counts: { total: number } }>();
  assert.deepEqual([again.id, again.counts.total], [first.id, 1]);
  const other = await run(2);
  assert.deepEqual(
    [other.status, other.json<{ code: string }>().code],
    [409, 'idempotencyConflict'],
  );
});
