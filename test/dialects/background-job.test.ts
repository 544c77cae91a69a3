// The dialect of mcp-background-job: its seven tools as they are, in its words. Its twelve weaknesses have a file of their own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { backgroundJobDialect } from '../../src/dialects/background-job/index.ts';
import { start } from './background-job-kit.ts';

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

describe('its words', () => {
  test('statuses, lists, unknown jobs', async (t) => {
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

  test('tail_job_output gives the last lines of each stream', async (t) => {
    const { finish, tool } = await start(t);
    const { id } = await finish('seq 1 100; seq 201 300 >&2');
    assert.deepEqual(await tool('tail_job_output', { job_id: id, lines: 2 }), {
      stdout: '99\n100\n',
      stderr: '299\n300\n',
    });
  });

  test('more lines than fit into an answer: whole lines, and that some are missing', async (t) => {
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

  test('a job that is over refuses input; too much input is not an unknown job', async (t) => {
    const { finish, execute, interact, kill } = await start(t);
    const { id } = await finish('true');
    await assert.rejects(interact(id, 'x'), {
      message: `Job ${id} is not running and cannot accept input`,
    });
    const cat = await execute('cat');
    await assert.rejects(interact(cat, 'x'.repeat(100_000)), /^Error: Wrong input .*text/);
    await kill(cat);
  });
});
