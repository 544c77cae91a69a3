// The container recipe: its command line (checked with docker's client if it is installed), secrets off the command
// line, and no container left behind, with a stand-in for docker on PATH.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isAlive } from '../../../../src/kinds/endpoint/workers/process.ts';
import { launchOf } from '../../../../src/kinds/endpoint/workers/recipe.ts';
import { endpointSpec } from '../../../../src/kinds/endpoint/spec.ts';
import { kill, serve } from '../../../helpers/endpoint-process.ts';
import { freePort } from '../../../helpers/port.ts';
import { startEndpoints } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { textOf } from '../../../helpers/listener.ts';
import { until } from '../../../helpers/until.ts';

const worker = join(import.meta.dirname, '../../../fixtures/endpoint/worker.py');

test('an image runs with the expected docker options and is removed with its worker', async (t) => {
  const folder = fakeEngine(t);
  const server = await startEndpoints(t);
  const recipe = { image: 'me/worker:1', args: ['--fast'], options: ['--gpus=all'] };
  const env = { HF_TOKEN: 'secret', TZ: 'UTC' };
  await server.save('boxed', { recipe, env, maxWorkers: 1, stopMs: 500 });
  const job = await server.ended('boxed', await server.run('boxed', { n: 1 }));
  assert.equal(job.status, 'COMPLETED', JSON.stringify(job));
  const id = job.workerId as string;
  const [run] = calls(folder).filter((line) => line.startsWith('run '));
  assert.match(run!, new RegExp(`--name=errand-${id} --label=errand.endpoint=boxed `));
  assert.match(run!, /^run --rm --init --network=host .* --gpus=all me\/worker:1 --fast$/);
  assert.match(run!, /--env=HF_TOKEN .*--env=RUNPOD_AI_API_KEY /, 'names, not values');
  assert.match(run!, /--env=TZ=UTC /, 'what the client itself reads');
  assert.doesNotMatch(run!, /secret|--env=PATH|http:/);

  // When the client is killed, the container is removed, and the next job gets another one.
  process.kill(pidOf(folder), 'SIGKILL');
  await until('it is removed', () => calls(folder).includes(`rm --force errand-${id}`));
  const again = await server.ended('boxed', await server.run('boxed', { n: 2 }));
  assert.notEqual(again.workerId, id);
  const pid = pidOf(folder);
  await server.call('DELETE', '/api/endpoints/boxed');
  const other = `rm --force errand-${again.workerId as string}`;
  await until('this one too', () => calls(folder).includes(other) && !isAlive(pid, null));
});

test('without an engine the endpoint is created and reports why nothing runs', async (t) => {
  const empty = tempFolder(t);
  setPath(t, empty);
  const server = await startEndpoints(t);
  await server.save('boxed', { recipe: { image: 'me/worker:1' } });
  const id = await server.run('boxed', {});
  const text = await until('it is diagnosed', async () => {
    const { body } = await server.call('GET', `/api/jobs/${id}`);
    return /no container engine/.test(String(body.diagnosis)) ? String(body.diagnosis) : undefined;
  });
  assert.match(text, /image me\/worker:1.*docker: not installed; podman: not installed/);
  const shown = await server.call('GET', '/api/endpoints/boxed');
  assert.match(shown.body.trouble as string, /Start docker or podman\. Its jobs wait/);
  assert.equal((await server.call('GET', `/v2/boxed/status/${id}`)).body.status, 'IN_QUEUE');
});

test(
  'a container is paused while the server is away, and removed if its client is killed too',
  { timeout: 120_000 },
  async (t) => {
    const folder = fakeEngine(t);
    const home = join(tempFolder(t), 'home');
    const port = await freePort();
    const first = await serve(t, home, port);
    const spec = { recipe: { image: 'me/worker:1' }, maxWorkers: 1, idleTimeoutMs: 600_000 };
    await first.save('boxed', spec);
    const { workerId } = await first.ended('boxed', await first.run('boxed', { n: 1 }));
    const name = `errand-${workerId as string}`;
    kill(first.pid);
    await until('it is paused', () => calls(folder).includes(`pause ${name}`));
    const second = await serve(t, home, port);
    const next = await second.ended('boxed', await second.run('boxed', { n: 2 }));
    assert.equal(next.workerId, workerId, 'the same container continues');
    assert.ok(calls(folder).includes(`unpause ${name}`));
    kill(second.pid);
    process.kill(pidOf(folder), 'SIGKILL');
    const third = await serve(t, home, port);
    await until('it is removed', () => calls(folder).includes(`rm --force ${name}`));
    const last = await third.ended('boxed', await third.run('boxed', { n: 3 }));
    assert.notEqual(last.workerId, workerId);
    const pid = pidOf(folder);
    await third.call('DELETE', '/api/endpoints/boxed');
    await until('its worker is gone', () => !isAlive(pid, null));
    kill(third.pid);
  },
);

test("docker's client parses the command line as intended", async (t) => {
  const docker = spawnSync('docker', ['--version'], { encoding: 'utf8' });
  if (docker.status !== 0) return t.skip('no docker client on this machine');
  const socket = join(tempFolder(t), 'docker.sock');
  const seen: { url: string; text: string }[] = [];
  const daemon = createServer((request, response) => {
    response.setHeader('api-version', '1.47');
    if (request.url === '/_ping') return void response.end('OK');
    void textOf(request).then((text) => {
      seen.push({ url: request.url!, text });
      // The parsed options are sufficient, so nothing is started.
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"message":"seen"}');
    });
  });
  await new Promise<void>((resolve) => daemon.listen(socket, resolve));
  t.after(() => daemon.close());
  const { command, env } = launch({ engine: 'docker', platform: 'linux' });
  const client = spawn(command[0]!, command.slice(1), {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...env, DOCKER_HOST: `unix://${socket}` },
  });
  let said = '';
  client.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  await new Promise<void>((resolve) => client.once('close', () => resolve()));
  const create = seen.find(({ url }) => url.includes('/containers/create'));
  assert.ok(create, said);
  const { url } = create;
  const body = JSON.parse(create.text) as Record<string, unknown>;
  assert.match(url, /[?&]name=errand-w1(&|$)/);
  const { Image, Cmd, Labels, HostConfig } = body as Record<string, Record<string, unknown>>;
  assert.deepEqual([Image, Cmd], ['me/worker:1', ['--fast']]);
  assert.deepEqual(Labels, { 'errand.endpoint': 'boxed' });
  const { AutoRemove, Init, NetworkMode, Memory } = HostConfig!;
  assert.deepEqual([AutoRemove, Init, NetworkMode, Memory], [true, true, 'host', 1 << 30]);
  const given = body.Env as string[];
  for (const line of ['HF_TOKEN=secret', 'TZ=UTC', 'RUNPOD_AI_API_KEY=key-1', 'RUNPOD_POD_ID=w1'])
    assert.ok(given.includes(line), line);
  assert.ok(!given.some((line) => line.startsWith('PATH=')), 'the image has its own');
});

test('with an engine in a virtual machine, containers reach the server by host name', () => {
  const docker = launch({ engine: 'docker', platform: 'darwin' });
  assert.ok(!docker.command.includes('--network=host'));
  assert.match(docker.env.RUNPOD_WEBHOOK_GET_JOB!, /^http:\/\/host\.docker\.internal:7411\/v2\//);
  const podman = launch({ engine: 'podman', platform: 'darwin' });
  assert.match(podman.env.RUNPOD_WEBHOOK_PING!, /^http:\/\/host\.containers\.internal:7411\/v2\//);
});

function launch(machine: { engine: string; platform: NodeJS.Platform }) {
  const recipe = { image: 'me/worker:1', args: ['--fast'], options: ['--memory=1g'] };
  const spec = endpointSpec.parse({ recipe, env: { HF_TOKEN: 'secret', TZ: 'UTC' } });
  const endpoint = { id: 'boxed', owner: 'me', spec, version: 1, source: 'api' as const };
  return launchOf(
    { ...endpoint, createdAt: 0, updatedAt: 0 },
    { id: 'w1', key: 'key-1' },
    {
      ...machine,
      secret: (name) => (name === 'PATH' ? process.env.PATH : undefined),
      baseUrl: 'http://127.0.0.1:7411',
      cacheFolder: '/tmp',
      scratch: '/tmp',
      home: '/tmp',
    },
  );
}

/** `docker` stand-in that records its calls and runs the test worker instead of a container. */
function fakeEngine(t: TestContext): string {
  const folder = tempFolder(t);
  mkdirSync(join(folder, 'bin'));
  const script = `#!/bin/sh
echo "$@" >> '${folder}/calls'
case "$1" in
  run) echo $$ > '${folder}/pid'; cd "$(mktemp -d '${folder}/container.XXXXXX')"; exec python3 '${worker}';;
  pause) kill -STOP $(cat '${folder}/pid');;
  unpause) kill -CONT $(cat '${folder}/pid');;
esac
`;
  writeFileSync(join(folder, 'bin/docker'), script);
  chmodSync(join(folder, 'bin/docker'), 0o755);
  setPath(t, `${join(folder, 'bin')}:${process.env.PATH}`);
  return folder;
}

function setPath(t: TestContext, path: string): void {
  const before = process.env.PATH;
  process.env.PATH = path;
  t.after(() => {
    process.env.PATH = before;
  });
}

function calls(folder: string): string[] {
  const path = join(folder, 'calls');
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
}

const pidOf = (folder: string): number => Number(readFileSync(join(folder, 'pid'), 'utf8'));
