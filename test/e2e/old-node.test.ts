// Starting Errand with a Node that is too old: it runs itself with the installed Node package, or prints what to do. Tests
// use old Node versions of the machine and a Node that reports an old version.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { tempFolder } from '../helpers/folder.ts';
import { isGone } from '../helpers/process.ts';
import { bin, serverEnv } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

type Node = [program: string, ...args: string[]];

const fakeVersion = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })`;
const fakeOldNode: Node = [
  process.execPath,
  '--import',
  `data:text/javascript,${encodeURIComponent(fakeVersion)}`,
];

const oldNodes: [string, Node][] = [
  ['a Node that reports an old version', fakeOldNode],
  ...realOldNodes().map((path): [string, Node] => [`${path} of this machine`, [path]]),
];

function realOldNodes(): string[] {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin'];
  const found = new Map<string, string>();
  for (const path of folders.map((folder) => join(folder, 'node'))) {
    const { stdout } = spawnSync(path, ['-p', 'process.versions.node'], { encoding: 'utf8' });
    if (/^(18|20|22)\./.test(stdout ?? '')) found.set(stdout, path);
  }
  return [...found.values()];
}

for (const [name, [program, ...args]] of oldNodes) {
  test(`${name}: runs with the installed Node package and keeps exit codes`, async (t) => {
    const home = join(tempFolder(t), 'home');
    const env = serverEnv(home);
    const run = (...words: string[]) =>
      spawnSync(program, [...args, bin, ...words], { env, encoding: 'utf8', timeout: 120_000 });
    assert.equal(run('--version').stdout.trim(), version);
    const served = spawn(program, [...args, bin, 'serve', '--json', '--port', '0'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => served.kill('SIGKILL'));
    const [line] = (await once(createInterface({ input: served.stdout }), 'line')) as [string];
    const { pid } = JSON.parse(line) as { pid: number };
    assert.notEqual(pid, served.pid, 'the server is a different process');
    const job = run('run', '--shell', 'echo $0; exit 7');
    assert.equal(job.status, 7, job.stderr);
    // Killing the parent must end the child.
    served.kill('SIGKILL');
    await until('the server has exited', () => isGone(String(pid)));
  });
}

test('without a newer Node, the error names the required version and what to do', (t) => {
  const folder = tempFolder(t);
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  copyFileSync(bin, join(folder, 'bin/errand.js'));
  for (const [, [program, ...args]] of oldNodes) {
    const answer = spawnSync(program, [...args, join(folder, 'bin/errand.js'), 'list'], {
      encoding: 'utf8',
    });
    assert.equal(answer.status, 78);
    assert.match(answer.stderr, /requires Node 24\.15 or newer; this is \d+\./);
    assert.match(answer.stderr, /npm start/);
  }
});

test('package.json scripts find Node 24 on machines with an old Node', () => {
  const found = execFileSync('npm', ['exec', '--', 'node', '-p', 'process.versions.node'], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { ...process.env, PATH: `/usr/bin${delimiter}${process.env.PATH}` },
  });
  assert.match(found, /^24\./);
});
