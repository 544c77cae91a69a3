// Following a job on the command line when things happen in between: ctrl-c at the worst moment, a reader that leaves, a server
// that is killed.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test, type TestContext } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { bin, cli, serverEnv, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Shown {
  id: string;
  status: string;
}

function start(t: TestContext, home: string, args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [bin, ...args], {
    env: serverEnv(home, env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

const code = async (child: ChildProcess) =>
  ((await once(child, 'exit')) as [number | null, string | null])[0];

const newest = async (server: TestServer) =>
  (await server.cli('list', '--json', '--limit', '1')).json<{ jobs: Shown[] }>().jobs[0]!;

/** Stands before the server. Every answer passes when `pass` resolves; where it rejects, the connection is cut. */
async function door(t: TestContext, server: TestServer, pass: (url: string) => Promise<void>) {
  const door = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const path = new URL(url!, server.url);
    const onward = http.request(path, { method, headers }, (answer) => {
      const send = () => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      };
      void pass(url!).then(send, () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  t.after(() => {
    door.closeAllConnections();
    door.close();
  });
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
  const { port } = door.address() as AddressInfo;
  return { ERRAND_URL: `http://127.0.0.1:${port}`, ERRAND_KEY: server.key };
}

/** Holds back the answer to run_command until it is let go. */
async function slowDoor(t: TestContext, server: TestServer) {
  let seen = () => {};
  let letGo = () => {};
  const asked = new Promise<void>((resolve) => (seen = resolve));
  const open = new Promise<void>((resolve) => (letGo = resolve));
  const env = await door(t, server, async (url) => {
    if (!url.includes('run_command')) return;
    seen();
    await open;
  });
  return { env, asked, letGo };
}

describe('ctrl-c', () => {
  const line = ['--shell', 'echo ready; exec sleep 60'];

  test('between the start of the job and its answer gets what was chosen', async (t) => {
    const server = await startServer(t);
    for (const choice of ['cancel', 'detach']) {
      const { env, asked, letGo } = await slowDoor(t, server);
      const child = start(t, server.home, ['run', '--on-interrupt', choice, ...line], env);
      const said = text(child.stderr);
      await asked;
      child.kill('SIGINT');
      // Its handler has run once it can be seen to live on.
      await until('the signal was taken', () => !pending(child.pid!, 'SIGINT'));
      letGo();
      const ended = await code(child);
      const job = await newest(server);
      if (choice === 'cancel') {
        assert.notEqual(ended, 0);
        assert.equal(job.status, 'cancelled');
        assert.match(await said, new RegExp(`stopping ${job.id}`));
      } else {
        assert.equal(ended, 0);
        assert.ok(['queued', 'running'].includes(job.status));
        assert.match(await said, new RegExp(`${job.id} goes on`));
        await server.cli('cancel', job.id);
      }
    }
  });

  test('right after the line that names the job stops it when that was chosen', async (t) => {
    const server = await startServer(t);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const child = start(t, server.home, ['run', '--on-interrupt', 'cancel', ...line]);
      const [id] = (await once(child.stderr, 'data')) as [Buffer];
      child.kill(signal);
      assert.notEqual(await code(child), 0);
      const job = await newest(server);
      assert.deepEqual([job.id, job.status], [String(id).trim().split('\n')[0], 'cancelled']);
    }
  });

  test('twice ends at once when no answer comes', async (t) => {
    // A door that never opens: the command line waits for its first answer.
    const door = http.createServer(() => {});
    t.after(() => {
      door.closeAllConnections();
      door.close();
    });
    await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
    const { port } = door.address() as AddressInfo;
    const env = { ERRAND_URL: `http://127.0.0.1:${port}`, ERRAND_KEY: 'x' };
    const asked = once(door, 'request');
    const child = start(t, join(tempFolder(t), 'home'), ['run', ...line], env);
    await asked;
    const ended = code(child);
    let isOver = false;
    void ended.then(() => (isOver = true));
    // Only a second press ends it, and one that follows too soon is the first one heard twice.
    await until('it has ended', () => (isOver ? true : (child.kill('SIGINT'), false)));
    assert.equal(await ended, 130);
  });
});

test('a reader that leaves ends the command line quietly', async (t) => {
  const server = await startServer(t);
  const piped = spawn(
    'sh',
    ['-c', '"$0" "$1" run --shell "seq 1 400000" | head -2', process.execPath, bin],
    { env: serverEnv(server.home), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const [out, err] = await Promise.all([text(piped.stdout), text(piped.stderr)]);
  assert.equal(out, '1\n2\n');
  assert.doesNotMatch(err, /EPIPE|Error/);
});

test('kill -9 of the server while it is followed: output and exit code come from the next one', async (t) => {
  const home = join(tempFolder(t), 'home');
  const folder = tempFolder(t);
  t.after(() => cli(home, ['stop']));
  const line = `seq 1 5000; ${awaitFile(`${folder}/go`)}; seq 5001 9000; exit 7`;
  const child = start(t, home, ['run', '--shell', line]);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (out += part));
  await until('the first half is here', () => out.includes('\n5000\n'));
  process.kill(Number(readFileSync(join(home, 'server.pid'), 'utf8')), 'SIGKILL');
  writeFileSync(join(folder, 'go'), '');
  assert.equal(await code(child), 7);
  const all = Array.from({ length: 9000 }, (_, i) => `${i + 1}\n`).join('');
  assert.equal(out, all);
});

test('wait goes on when its connection is cut', async (t) => {
  const server = await startServer(t);
  const job = (await server.cli('run', '--detach', '--json', '--', 'true')).json<Shown>();
  let asked = 0;
  const env = await door(t, server, async (url) => {
    if (url.includes('wait_for_jobs') && asked++ === 0) throw new Error('cut');
  });
  const answer = await cli(server.home, ['wait', job.id], env);
  assert.deepEqual([answer.code, asked], [0, 2], answer.stderr);
});

test('a server that is stopped does not wait for those who follow: they go on with the next one', async (t) => {
  // Longer than any test: whoever waited for the follower would not be done.
  const home = homeWith(t, { http: { stopTimeoutMs: 3_600_000 } });
  const gate = join(tempFolder(t), 'go');
  const server = await startServer(t, { home });
  t.after(() => cli(home, ['stop']));
  const child = start(t, home, ['run', '--shell', `echo before; ${awaitFile(gate)}; echo after`]);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (out += part));
  await until('it is followed', () => out.includes('before'));
  assert.equal(await server.stop(), 0);
  writeFileSync(gate, '');
  assert.equal(await code(child), 0);
  assert.equal(out, 'before\nafter\n');
});

/** Whether the kernel still holds the signal back from the process. */
function pending(pid: number, name: 'SIGINT'): boolean {
  if (process.platform !== 'linux') return false;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const bit = name === 'SIGINT' ? 1 : 0;
  return [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)/gm)].some(
    ([, mask]) => (BigInt(`0x${mask}`) >> BigInt(bit)) & 1n,
  );
}
