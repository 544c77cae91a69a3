// The size of ten ordinary calls, for clients that show structured content and for clients that show text.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { tenCalls } from '../../../bench/core/ten-calls.ts';
import { openInterfaces } from '../../access/interfaces.ts';
import { startApp } from '../../helpers/app.ts';
import { httpClient, type ToolResult } from './clients.ts';

const hasPython = spawnSync('python3', ['--version']).status === 0;

test(
  'ten ordinary calls cost at most 3,500 characters, and structured content is at most 10 % larger than text',
  { skip: !hasPython && 'needs python3' },
  async (t) => {
    const { app, call } = await startApp(t);
    const { url } = await openInterfaces(t, app);
    const { key } = await call<{ key: string }>('create_key', { owner: 'me', scopes: ['admin'] });
    const client = await httpClient(t, `${url}/mcp`, 'auto', key);
    const counted = await tenCalls(
      async (name, input) =>
        (await client.callTool({ name, arguments: { ...input } })) as ToolResult,
      0.05,
    );
    const sum = (part: 'structure' | 'text') => counted.reduce((n, one) => n + one[part].length, 0);
    const all = JSON.stringify(counted, null, 1);
    assert.equal(counted.length, 10);
    assert.ok(sum('structure') <= 3500, all);
    assert.ok(sum('structure') <= 1.1 * sum('text'), all);
    // The results contain what the next decision needs.
    assert.match(counted[1]!.structure, /"exitCode":1.*Expected: 21/);
    assert.match(counted[3]!.structure, /"done":true.*step 30 of 30/);
  },
);

test('get_job with details returns the fields that responses omit', async (t) => {
  const { app, call } = await startApp(t);
  const { url } = await openInterfaces(t, app);
  const { key } = await call<{ key: string }>('create_key', { owner: 'me', scopes: ['admin'] });
  const client = await httpClient(t, `${url}/mcp`, 'auto', key);
  const { id } = await call<{ id: string }>('run_command', { command: 'true', waitMs: 20_000 });
  const getJob = async (more: object) =>
    ((await client.callTool({ name: 'get_job', arguments: { id, ...more } })) as ToolResult)
      .structuredContent!;
  const brief = await getJob({});
  assert.deepEqual(Object.keys(brief).toSorted(), [
    'exitCode',
    'id',
    'kind',
    'runMs',
    'status',
    'summary',
  ]);
  const detailed = await getJob({ details: true });
  for (const name of ['timings', 'attempts', 'queue', 'cwd', 'history'])
    assert.ok(name in detailed, name);
});
