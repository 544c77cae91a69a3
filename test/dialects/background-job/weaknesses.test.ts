// The twelve known weaknesses of mcp-background-job, each with a test that our dialect does not have it.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { kinds } from '../../../src/app.ts';
import { loadConfig } from '../../../src/config.ts';
import { backgroundJobDialect } from '../../../src/dialects/background-job/index.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { awaitFile, isGone } from '../../helpers/process.ts';
import { bin, serverEnv, startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { programs, start, type Output } from './kit.ts';

describe('weaknesses of the original', () => {
  test('1: a real shell', async (t) => {
    const { finish } = await start(t);
    assert.equal((await finish('echo hi | tr h H')).stdout, 'Hi\n');
    assert.equal((await finish('cd /tmp && pwd')).stdout, '/tmp\n');
    assert.equal(
      (await finish('FOO=1 env | grep ^FOO; echo a; echo "it\'s"')).stdout,
      "FOO=1\na\nit's\n",
    );
  });

  test('2: kill ends the whole tree, including children that left group, session and parent', async (t) => {
    const { execute, kill, tool } = await start(t);
    const folder = tempFolder(t);
    const job_id = await execute(`sh ${join(programs, 'family.sh')} ${folder}`);
    await until('ready', async () =>
      (await tool<Output>('tail_job_output', { job_id })).stdout.includes('ready'),
    );
    assert.equal(await kill(job_id), 'killed');
    for (const name of ['background', 'session', 'orphan']) {
      const pid = readFileSync(join(folder, name), 'utf8').trim();
      await until(`${name} is gone`, () => isGone(pid));
    }
  });

  test('3: killing a job that ignores SIGTERM does not delay other calls', async (t) => {
    const { execute, kill, tool, finish } = await start(t, { killGraceMs: 4000 });
    const job_id = await execute(`sh ${join(programs, 'ignore-term.sh')}`);
    await until('ready', async () =>
      (await tool<Output>('tail_job_output', { job_id })).stdout.includes('ready'),
    );
    let over = false;
    const killed = kill(job_id).finally(() => (over = true));
    const { jobs } = await tool<{ jobs: unknown[] }>('list_jobs');
    assert.equal(jobs.length, 1);
    assert.equal(over, false, 'other calls return during the grace period');
    assert.equal((await finish('echo meanwhile')).stdout, 'meanwhile\n');
    assert.equal(await killed, 'killed');
  });

  test('4: a response is bounded in bytes, and the complete output is kept', async (t) => {
    const { finish, app } = await start(t);
    const { id, stdout } = await finish(
      'for i in 1 2 3 4 5; do head -c 1000000 /dev/zero | tr "\\0" x; echo; done',
    );
    assert.ok(Buffer.byteLength(stdout) < 40_000);
    assert.match(stdout, /bytes left out/);
    const job = await app.jobs.get(id);
    assert.equal(job.facts.outputBytes, 5_000_005);
  });

  test('5: interact returns only new output, even after much output', async (t) => {
    const { execute, interact, tool, kill } = await start(t);
    const id = await execute('seq 1 200000; echo ready; while read -r x; do echo "got:$x"; done');
    await until('it reads', async () =>
      (await tool<Output>('tail_job_output', { job_id: id, lines: 1 })).stdout.includes('ready'),
    );
    assert.equal((await interact(id, 'hello')).stdout, 'got:hello\n');
    assert.equal((await interact(id, 'again\n')).stdout, 'got:again\n');
    await kill(id);
  });

  test('6: a prompt without a newline is visible', async (t) => {
    const { execute, interact, tool, kill } = await start(t);
    const id = await execute(
      'printf "Name? "; read -r x; echo "got:$x"; printf "More? "; read -r y',
    );
    await until(
      'the prompt',
      async () =>
        (await tool<Output>('tail_job_output', { job_id: id, lines: 1 })).stdout === 'Name? ',
    );
    assert.equal((await interact(id, 'hello')).stdout, 'got:hello\nMore? ');
    await kill(id);
  });

  test('7: invalid UTF-8 does not lose later output', async (t) => {
    const { finish } = await start(t);
    const { stdout } = await finish(String.raw`printf 'a\377\376b\n'; seq 1 3`);
    assert.match(stdout, /^a\ufffd+b\n1\n2\n3\n$/);
  });

  test('8: invalid settings prevent the start instead of disabling rules', (t) => {
    const home = join(tempFolder(t), 'home');
    mkdirSync(home);
    for (const command of [
      { maxJobs: 'abc' },
      { policy: { allow: ['/(/'] } },
      { policy: { alow: ['git'] } },
      { policy: { cwds: ['relative'] } },
    ]) {
      writeFileSync(join(home, 'config.json'), JSON.stringify({ command }));
      assert.throws(() => loadConfig({ home, sections: kinds }, {}), { code: 'invalidInput' });
    }
  });

  test('9: harmless commands are accepted, and rules apply to the parsed command', async (t) => {
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
      await assert.rejects(ruled.execute(line), /denied|cannot be parsed/, line);
  });

  test('10: jobs, output and exit code survive kill -9 of the server and the end of the client', async (t) => {
    const first = await startServer(t);
    const folder = tempFolder(t);
    const body = {
      command: `echo early; ${awaitFile(`${folder}/go`)}; exit 6`,
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
    const client = await connect(t, second.home);
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
    const line = { command: 'sleep 300' };
    const left = await client.callTool({ name: 'execute_command', arguments: line });
    const { job_id } = left.structuredContent as { job_id: string };
    await client.close();
    const later = await connect(t, second.home);
    const still = await later.callTool({ name: 'get_job_status', arguments: { job_id } });
    assert.deepEqual(still.structuredContent, { status: 'running' });
    await later.callTool({ name: 'kill_job', arguments: { job_id } });
  });

  test('11: a program that waits for input is detected, and ends on end of input and ctrl-c', async (t) => {
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

  test('11 (more): our own tools provide what the seven tools lack', async (t) => {
    const { execute, call } = await start(t);
    interface View {
      status: string;
      exitCode: number | null;
      attempts: { number: number };
      timings: { startedAt?: string };
      [fact: string]: unknown;
    }
    const id = await execute("trap 'exit 9' USR1; echo set; while :; do sleep 0.05; done");
    const wait = (until_?: object) =>
      call<{ jobs: View[] }>('wait_for_jobs', {
        ids: [id],
        timeoutMs: 20_000,
        ...(until_ ? { until: until_ } : {}),
      });
    await wait({ text: 'set' });
    const running = await call<View>('get_job', { id });
    assert.ok(running.timings.startedAt, 'times');
    for (const fact of ['pid', 'processes', 'cpuMs', 'memoryBytes', 'lastOutputAgeMs'])
      assert.equal(typeof running[fact], 'number', fact);
    await call('send_signal', { id, signal: 'USR1' });
    assert.equal((await wait()).jobs[0]!.exitCode, 9);
    assert.equal((await call<View>('retry_job', { id })).attempts.number, 2);
    await call('cancel_job', { id });
  });

  test('12: the server exits cleanly on SIGTERM while jobs run', async (t) => {
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

async function connect(t: TestContext, home: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  t.after(() => client.close());
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [bin, 'mcp', '--dialect', 'background-job'],
      env: serverEnv(home) as Record<string, string>,
    }),
  );
  return client;
}
