// The background-job dialect: its seven tools with the original wording. Its twelve known weaknesses have their own test file.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { backgroundJobDialect } from '../../../src/dialects/background-job/index.ts';
import { JobTasks } from '../../../src/interfaces/mcp/jobs.ts';
import { LocalSource } from '../../../src/interfaces/mcp/local.ts';
import { ToolRegistry } from '../../../src/interfaces/mcp/toolsets.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { me, start } from './kit.ts';

test('exactly the seven tools with their parameters', () => {
  const shapes = backgroundJobDialect.tools!.map((tool) => {
    const schema = tool.input.toJSONSchema({ io: 'input' }) as {
      properties?: object;
      required?: string[];
    };
    return [tool.name, Object.keys(schema.properties ?? {}), schema.required ?? []];
  });
  assert.deepEqual(shapes, [
    ['list_jobs', [], []],
    ['get_job_status', ['job_id'], ['job_id']],
    ['get_job_output', ['job_id'], ['job_id']],
    ['tail_job_output', ['job_id', 'lines'], ['job_id']],
    ['execute_command', ['command'], ['command']],
    ['interact_with_job', ['job_id', 'input'], ['job_id', 'input']],
    ['kill_job', ['job_id'], ['job_id']],
  ]);
  for (const { description } of backgroundJobDialect.tools!) assert.ok(description.length <= 600);
});

describe('original wording', () => {
  test('statuses, job lists and unknown jobs', async (t) => {
    const { tool, finish, kill, status } = await start(t);
    const good = await finish('echo out; echo err >&2');
    assert.deepEqual([good.status, good.stdout, good.stderr], ['completed', 'out\n', 'err\n']);
    const bad = await finish('exit 3');
    assert.equal(bad.status, 'failed');
    assert.equal((await finish('kill -9 $$')).status, 'killed');
    const { jobs } = await tool<{ jobs: Record<string, string>[] }>('list_jobs');
    assert.deepEqual(Object.keys(jobs[0]!), ['job_id', 'status', 'command', 'started']);
    assert.deepEqual(
      jobs.map((job) => [job.command, job.status]),
      [
        ['kill -9 $$', 'killed'],
        ['exit 3', 'failed'],
        ['echo out; echo err >&2', 'completed'],
      ],
    );
    assert.ok(Date.parse(jobs[0]!.started!) > 0);
    assert.equal(await kill(good.id), 'already_terminated');
    assert.equal(await kill('3f2b8c1e-0000-4000-8000-000000000000'), 'not_found');
    await assert.rejects(status('no-such-job'), /Job no-such-job not found/);
  });

  test('tail_job_output returns the last lines of each stream', async (t) => {
    const { finish, tool } = await start(t);
    const { id } = await finish('seq 1 100; seq 201 300 >&2');
    assert.deepEqual(await tool('tail_job_output', { job_id: id, lines: 2 }), {
      stdout: '99\n100\n',
      stderr: '299\n300\n',
    });
  });

  test('if not all lines fit, whole lines and a remark are returned', async (t) => {
    const { finish, tool } = await start(t);
    const { id } = await finish(`seq -f 'line %g ${'.'.repeat(100)}' 1 1000`);
    const { stdout } = await tool<{ stdout: string }>('tail_job_output', {
      job_id: id,
      lines: 1000,
    });
    const [remark, first] = stdout.split('\n');
    assert.match(remark!, /^\[… earlier lines do not fit/);
    assert.match(first!, /^line \d+ \.{100}$/);
    assert.match(stdout, /line 1000 \.{100}\n$/);
  });

  test('an ended job refuses input; too much input is not reported as an unknown job', async (t) => {
    const { finish, execute, interact, kill } = await start(t);
    const { id } = await finish('true');
    await assert.rejects(interact(id, 'x'), {
      message: `Job ${id} is not running and cannot accept input`,
    });
    const cat = await execute('cat');
    await assert.rejects(
      interact(cat, 'x'.repeat(100_000)),
      /^Error: Failed to interact with job: Invalid input .*text/,
    );
    await kill(cat);
  });
});

describe('over MCP', () => {
  async function source(t: TestContext) {
    const kit = await start(t);
    const { operations, clock } = kit.app;
    const mcp = new LocalSource({
      registry: new ToolRegistry(operations, [backgroundJobDialect]),
      jobs: new JobTasks({ operations, clock }),
      dialects: ['background-job'],
      caller: me,
      log: silentLog,
    });
    const { signal } = new AbortController();
    return {
      ...kit,
      call: (name: string, args: object) => mcp.call(name, { ...args }, { signal }),
    };
  }

  test('list_jobs returns every job as valid JSON, even if there are many', async (t) => {
    const { call, app } = await source(t);
    const word = 'w'.repeat(300);
    const count = 230;
    for (let n = 0; n < count; n++)
      await app.operations.call(
        'run_command',
        { argv: ['true', word], runAt: '2999-01-01T00:00:00Z', waitMs: 0 },
        { caller: me, signal: new AbortController().signal },
      );
    const { text, structured } = await call('list_jobs', {});
    const { jobs } = JSON.parse(text!) as { jobs: { job_id: string; command: string }[] };
    assert.equal(new Set(jobs.map(({ job_id: id }) => id)).size, count);
    assert.deepEqual(structured, JSON.parse(text!));
    assert.ok(jobs.every(({ command }) => command.length <= 200));
  });

  test('arguments are coerced and errors are worded as in the original', async (t) => {
    const { call, finish } = await source(t);
    const { id } = await finish('seq 1 9');
    for (const lines of ['2', 2.0]) {
      const { structured } = await call('tail_job_output', { job_id: id, lines });
      assert.deepEqual(structured, { stdout: '8\n9\n', stderr: '' });
    }
    const refused = async (name: string, args: object) => {
      const { isError, text } = await call(name, args);
      assert.equal(isError, true);
      return text!;
    };
    assert.equal(
      await refused('execute_command', { command: ' \t ' }),
      'Invalid command: Command cannot be empty',
    );
    assert.equal(
      await refused('tail_job_output', { job_id: id, lines: 0 }),
      "Error calling tool 'tail_job_output': 1 validation error for call[tail_job_output]\nlines\n  Input should be greater than or equal to 1",
    );
    assert.match(
      await refused('tail_job_output', { job_id: id, lines: 'many' }),
      /^Error calling tool .*\nlines\n {2}Input should be a valid integer$/,
    );
    assert.match(
      await refused('get_job_status', {}),
      /^Error calling tool 'get_job_status': 1 validation error .*\njob_id\n {2}Missing required argument$/,
    );
    assert.equal(await refused('get_job_output', { job_id: 'nothing' }), 'Job nothing not found');
    const unknown = await refused('get_job', { id });
    assert.doesNotMatch(unknown, /toolset/);
  });
});
