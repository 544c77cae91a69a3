// A machine whose own Node is too old: the program runs itself with the one it brought, or says what to do. With the real old
// Node where the machine has one, and with one that says it is.
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

const pretence = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })`;
const pretended: Node = [
  process.execPath,
  '--import',
  `data:text/javascript,${encodeURIComponent(pretence)}`,
];

const oldNodes: [string, Node][] = [
  ['a Node that says it is old', pretended],
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
  test(`${name}: runs with the Node that was installed, exit codes and all`, async (t) => {
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
    assert.notEqual(pid, served.pid, 'the server is another process');
    const job = run('run', '--shell', 'echo $0; exit 7');
    assert.equal(job.status, 7, job.stderr);
    // Whoever ends the first process means the second.
    served.kill('SIGKILL');
    await until('the server is gone, too', () => isGone(String(pid)));
  });
}

test('no newer Node anywhere: says which it needs and what to do', (t) => {
  const folder = tempFolder(t);
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  copyFileSync(bin, join(folder, 'bin/errand.js'));
  for (const [, [program, ...args]] of oldNodes) {
    const answer = spawnSync(program, [...args, join(folder, 'bin/errand.js'), 'list'], {
      encoding: 'utf8',
    });
    assert.equal(answer.status, 78);
    assert.match(answer.stderr, /needs Node 24\.15 or newer; this is \d+\./);
    assert.match(answer.stderr, /npm start/);
  }
});

test('the scripts of package.json find Node 24 whatever the machine has', () => {
  const found = execFileSync('npm', ['exec', '--', 'node', '-p', 'process.versions.node'], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { ...process.env, PATH: `/usr/bin${delimiter}${process.env.PATH}` },
  });
  assert.match(found, /^24\./);
});
