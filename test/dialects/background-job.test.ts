// The dialect of mcp-background-job: its seven tools as they are, and none of its twelve weaknesses.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { backgroundJobDialect } from '../../src/dialects/background-job/index.ts';
import { loadConfig } from '../../src/config.ts';
import { kinds } from '../../src/app.ts';
import { startApp, type TestApp } from '../helpers/app.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, serverEnv, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';
import { mkdirSync, writeFileSync } from 'node:fs';

const programs = join(import.meta.dirname, '../fixtures/programs');

interface Output {
  stdout: string;
  stderr: string;
}

async function start(t: TestContext, settings: object = {}) {
  const test_ = await startApp(t, { command: { checkMs: 50, killGraceMs: 300, ...settings } });
  return { ...test_, ...toolsOf(test_) };
}

function toolsOf({ app }: Pick<TestApp, 'app'>) {
  const tool = async <T>(name: string, input: object = {}): Promise<T> => {
    const found = backgroundJobDialect.tools!.find((one) => one.name === name)!;
    const answer = await found.run(found.input.parse(input), {
      operations: app.operations,
      context: {
        caller: { owner: 'me', scopes: new Set(['read', 'run']), admin: false, local: true },
        signal: AbortSignal.timeout(60_000),
      },
    });
    if (answer.isError) throw new Error(answer.text);
    if (found.output) found.output.parse(answer.structured);
    return answer.structured as T;
  };
  const execute = async (command: string) =>
    (await tool<{ job_id: string }>('execute_command', { command })).job_id;
  const status = async (job_id: string) =>
    (await tool<{ status: string }>('get_job_status', { job_id })).status;
  const output = (job_id: string) => tool<Output>('get_job_output', { job_id });
  const finish = async (command: string) => {
    const id = await execute(command);
    await until('over', async () => (await status(id)) !== 'running');
    return { id, status: await status(id), ...(await output(id)) };
  };
  const kill = async (job_id: string) =>
    (await tool<{ status: string }>('kill_job', { job_id })).status;
  const interact = (job_id: string, input: string) =>
    tool<Output>('interact_with_job', { job_id, input });
  return { tool, execute, status, output, finish, kill, interact };
}

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
});

describe('weaknesses it does not have', () => {
  test('1: a real shell', async (t) => {
    const { finish } = await start(t);
    assert.equal((await finish('echo hi | tr h H')).stdout, 'Hi\n');
    assert.equal((await finish('cd /tmp && pwd')).stdout, '/tmp\n');
    assert.equal(
      (await finish('FOO=1 env | grep ^FOO; echo a; echo "it\'s"')).stdout,
      "FOO=1\na\nit's\n",
    );
  });

  test('2 and 3: kill ends the whole tree and holds up nobody', async (t) => {
    const { execute, kill, tool, finish } = await start(t);
    const folder = tempFolder(t);
    const family = await execute(`sh ${join(programs, 'family.sh')} ${folder}`);
    const stubborn = await execute(`sh ${join(programs, 'ignore-term.sh')}`);
    for (const job_id of [family, stubborn]) {
      await until('ready', async () =>
        (await tool<Output>('tail_job_output', { job_id })).stdout.includes('ready'),
      );
    }
    const killed = Promise.all([kill(stubborn), kill(family)]);
    assert.equal((await finish('echo meanwhile')).stdout, 'meanwhile\n');
    assert.deepEqual(await killed, ['killed', 'killed']);
    for (const name of ['background', 'session', 'orphan']) {
      const pid = readFileSync(join(folder, name), 'utf8').trim();
      await until(`${name} is gone`, () => isGone(pid));
    }
  });

  test('4: an answer is bounded in bytes, and the whole output is kept', async (t) => {
    const { finish, app } = await start(t);
    const { id, stdout } = await finish(
      'for i in 1 2 3 4 5; do head -c 1000000 /dev/zero | tr "\\0" x; echo; done',
    );
    assert.ok(Buffer.byteLength(stdout) < 40_000);
    assert.match(stdout, /bytes left out/);
    const job = await app.jobs.get(id);
    assert.equal(job.facts.outputBytes, 5_000_005);
  });

  test('5 and 6: interact answers whatever was printed before, and prompts are visible', async (t) => {
    const { execute, interact, tool, kill } = await start(t);
    const id = await execute(
      'seq 1 200000; printf "Name? "; read -r x; echo "got:$x"; printf "More? "; read -r y',
    );
    await until(
      'the prompt',
      async () =>
        (await tool<Output>('tail_job_output', { job_id: id, lines: 1 })).stdout === 'Name? ',
    );
    assert.equal((await interact(id, 'hello')).stdout, 'got:hello\nMore? ');
    await kill(id);
  });

  test('7: bytes that are no UTF-8 lose nothing after them', async (t) => {
    const { finish } = await start(t);
    const { stdout } = await finish(String.raw`printf 'a\377\376b\n'; seq 1 3`);
    assert.match(stdout, /^a\ufffd+b\n1\n2\n3\n$/);
  });

  test('8: wrong settings stop the start instead of switching rules off', (t) => {
    const home = join(tempFolder(t), 'home');
    mkdirSync(home);
    for (const command of [
      { jobsMax: 'abc' },
      { policy: { allow: ['/(/'] } },
      { policy: { alow: ['git'] } },
      { policy: { cwds: ['relative'] } },
    ]) {
      writeFileSync(join(home, 'config.json'), JSON.stringify({ command }));
      assert.throws(() => loadConfig({ home, sections: kinds }, {}), { code: 'invalidInput' });
    }
  });

  test('9: nothing harmless is refused by guesses, and rules judge the parsed command', async (t) => {
    const plain = await start(t);
    assert.equal((await plain.finish('true 2>/dev/null && echo ok')).stdout, 'ok\n');
    const ruled = await start(t, { policy: { deny: ['rm'] } });
    assert.equal((await ruled.finish('echo rm -rf /')).status, 'completed');
    for (const line of [
      'rm -r -f /x',
      'true && /bin/rm -fr /x',
      'A=1 rm x',
      'echo $(rm x)',
      'eval "rm x"',
      'sh -c "rm x"',
    ])
      await assert.rejects(ruled.execute(line), /denied|cannot be taken apart/, line);
  });

  test('10: jobs, output and exit survive kill -9 of the server', async (t) => {
    const first = await startServer(t);
    const folder = tempFolder(t);
    const body = {
      command: `echo early; while [ ! -f ${folder}/go ]; do sleep 0.05; done; exit 6`,
      waitMs: 0,
      streams: 'split',
      stdin: 'open',
    };
    const { id } = (await first.api('POST', '/api/commands', body)).json<{ id: string }>();
    await until('it prints', async () =>
      (await first.api('GET', `/api/jobs/${id}/output?stream=stdout`)).text.includes('early'),
    );
    await first.kill();
    writeFileSync(join(folder, 'go'), '');
    const second = await startServer(t, { home: first.home });
    const client = new Client({ name: 'test', version: '1' });
    t.after(() => client.close());
    await client.connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [bin, 'mcp', '--dialect', 'background-job'],
        env: serverEnv(second.home) as Record<string, string>,
      }),
    );
    const names = (await client.listTools()).tools.map(({ name }) => name).toSorted();
    assert.deepEqual(names, backgroundJobDialect.tools!.map(({ name }) => name).toSorted());
    const status = await until('over', async () => {
      const answer = await client.callTool({ name: 'get_job_status', arguments: { job_id: id } });
      const { status } = answer.structuredContent as { status: string };
      return status === 'running' ? undefined : status;
    });
    assert.equal(status, 'failed');
    const read = await client.callTool({ name: 'get_job_output', arguments: { job_id: id } });
    assert.deepEqual(read.structuredContent, { stdout: 'early\n', stderr: '' });
  });

  test('11: a program that waits for input is seen, can be ended by end of input and by ctrl-c', async (t) => {
    const { execute, interact, status, call } = await start(t);
    const id = await execute('cat; echo end');
    await until('seen', async () => {
      const job = await call<{ status: string }>('get_job', { id });
      return job.status === 'input_required';
    });
    assert.equal(await status(id), 'running');
    assert.equal((await interact(id, '\u0004')).stdout, 'end\n');
    assert.equal(await status(id), 'completed');
    const trap = await execute(
      "trap 'echo int; exit 1' INT; echo set; while :; do sleep 0.05; done",
    );
    await until(
      'set',
      async () => (await call<{ outputBytes: number }>('get_job', { id: trap })).outputBytes > 0,
    );
    assert.match((await interact(trap, '\u0003')).stdout, /int/);
  });

  test('12: SIGTERM ends the server cleanly while jobs run', async (t) => {
    const server = await startServer(t);
    const { id } = (
      await server.api('POST', '/api/commands', { command: 'sleep 300', waitMs: 0 })
    ).json<{ id: string }>();
    assert.equal(await server.stop(), 0);
    const next = await startServer(t, { home: server.home });
    const job = (await next.api('GET', `/api/jobs/${id}`)).json<{ status: string }>();
    assert.equal(job.status, 'running');
    await next.api('POST', `/api/jobs/${id}/cancel`, {});
  });
});

function isGone(pid: string): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}
