// Following a job on the command line across ctrl-c, a closed pipe, and a killed or restarted server.
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
import { sharedServer } from '../helpers/shared-server.ts';
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

/** Starts a proxy for the server. A response passes when `pass` resolves; if it rejects, the connection is closed. */
async function proxy(t: TestContext, server: TestServer, pass: (url: string) => Promise<void>) {
  const proxy = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const path = new URL(url!, server.url);
    const onward = http.request(path, { method, headers }, (upstream) => {
      const send = () => {
        response.writeHead(upstream.statusCode!, upstream.headers);
        upstream.pipe(response);
      };
      void pass(url!).then(send, () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port } = proxy.address() as AddressInfo;
  return { ERRAND_URL: `http://127.0.0.1:${port}`, ERRAND_KEY: server.key };
}

/** Holds the response of run_command back until `release` is called. */
async function slowProxy(t: TestContext, server: TestServer) {
  let markRequested = () => {};
  let release = () => {};
  const requested = new Promise<void>((resolve) => (markRequested = resolve));
  const released = new Promise<void>((resolve) => (release = resolve));
  const env = await proxy(t, server, async (url) => {
    if (!url.includes('run_command')) return;
    markRequested();
    await released;
  });
  return { env, requested, release };
}

describe('ctrl-c', () => {
  const line = ['--shell', 'echo ready; exec sleep 60'];

  test('between the request and its response cancels or detaches as chosen', async (t) => {
    const server = await startServer(t);
    for (const choice of ['cancel', 'detach']) {
      const { env, requested, release } = await slowProxy(t, server);
      const child = start(t, server.home, ['run', '--on-interrupt', choice, ...line], env);
      const stderrText = text(child.stderr);
      await requested;
      child.kill('SIGINT');
      // The signal is no longer pending when its handler runs.
      await until('the signal was delivered', () => !pending(child.pid!, 'SIGINT'));
      release();
      const ended = await code(child);
      const job = await newest(server);
      if (choice === 'cancel') {
        assert.notEqual(ended, 0);
        assert.equal(job.status, 'cancelled');
        assert.match(await stderrText, new RegExp(`cancelling ${job.id}`));
      } else {
        assert.equal(ended, 0);
        assert.ok(['queued', 'running'].includes(job.status));
        assert.match(await stderrText, new RegExp(`${job.id} keeps running`));
        await server.cli('cancel', job.id);
      }
    }
  });

  test('right after the job id is printed cancels the job with --on-interrupt cancel', async (t) => {
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

  test('pressed twice exits immediately when the server does not respond', async (t) => {
    // This server never responds, so the command waits for its first response.
    const proxy = http.createServer(() => {});
    t.after(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.address() as AddressInfo;
    const env = { ERRAND_URL: `http://127.0.0.1:${port}`, ERRAND_KEY: 'x' };
    const requested = once(proxy, 'request');
    const child = start(t, join(tempFolder(t), 'home'), ['run', ...line], env);
    await requested;
    const ended = code(child);
    let hasEnded = false;
    void ended.then(() => (hasEnded = true));
    // Only a second press ends the command. A press that follows too soon counts as a duplicate.
    await until('the command has exited', () => (hasEnded ? true : (child.kill('SIGINT'), false)));
    assert.equal(await ended, 130);
  });
});

test('a closed pipe ends the command quietly', async () => {
  const server = await sharedServer();
  const piped = spawn(
    'sh',
    ['-c', '"$0" "$1" run --shell "seq 1 400000" | head -2', process.execPath, bin],
    { env: serverEnv(server.home), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const [out, err] = await Promise.all([text(piped.stdout), text(piped.stderr)]);
  assert.equal(out, '1\n2\n');
  assert.doesNotMatch(err, /EPIPE|Error/);
});

test('run follows a job across kill -9 of the server without losing output or the exit code', async (t) => {
  const home = join(tempFolder(t), 'home');
  const folder = tempFolder(t);
  t.after(() => cli(home, ['stop']));
  const line = `seq 1 5000; ${awaitFile(`${folder}/go`)}; seq 5001 9000; exit 7`;
  const child = start(t, home, ['run', '--shell', line]);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (out += part));
  await until('the first half of the output has arrived', () => out.includes('\n5000\n'));
  process.kill(Number(readFileSync(join(home, 'server.pid'), 'utf8')), 'SIGKILL');
  writeFileSync(join(folder, 'go'), '');
  assert.equal(await code(child), 7);
  const all = Array.from({ length: 9000 }, (_, i) => `${i + 1}\n`).join('');
  assert.equal(out, all);
});

test('wait continues after its connection is closed', async (t) => {
  const server = await sharedServer();
  const job = (await server.cli('run', '--detach', '--json', '--', 'true')).json<Shown>();
  let requested = 0;
  const env = await proxy(t, server, async (url) => {
    if (url.includes('wait_for_jobs') && requested++ === 0) throw new Error('cut');
  });
  const upstream = await cli(server.home, ['wait', job.id], env);
  assert.deepEqual([upstream.code, requested], [0, 2], upstream.stderr);
});

test('a stopping server does not wait for followers, which continue with the next server', async (t) => {
  // Longer than any test: a server that waits for the follower would not stop in time.
  const home = homeWith(t, { http: { stopTimeoutMs: 3_600_000 } });
  const gate = join(tempFolder(t), 'go');
  const server = await startServer(t, { home });
  t.after(() => cli(home, ['stop']));
  const child = start(t, home, ['run', '--shell', `echo before; ${awaitFile(gate)}; echo after`]);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (out += part));
  await until('the job is followed', () => out.includes('before'));
  assert.equal(await server.stop(), 0);
  writeFileSync(gate, '');
  assert.equal(await code(child), 0);
  assert.equal(out, 'before\nafter\n');
});

/** Whether the signal is still pending for the process. */
function pending(pid: number, name: 'SIGINT'): boolean {
  if (process.platform !== 'linux') return false;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const bit = name === 'SIGINT' ? 1 : 0;
  return [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)/gm)].some(
    ([, mask]) => (BigInt(`0x${mask}`) >> BigInt(bit)) & 1n,
  );
}
