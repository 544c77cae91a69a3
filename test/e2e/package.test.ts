// The published package: packed, installed in an empty folder without development parts, and run.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';

const root = join(import.meta.dirname, '..', '..');
const installBytesMax = 60 * 1024 * 1024;

test('the package installs in an empty folder, is small, and runs a command as a job', (t) => {
  const folder = tempFolder(t);
  const npm = (args: string[], cwd: string) =>
    execFileSync('npm', [...args, '--loglevel=error'], { cwd, encoding: 'utf8', timeout: 180_000 });
  const [packed] = JSON.parse(
    npm(['pack', '--json', '--pack-destination', folder], root).replace(/^[^[]*/, ''),
  ) as {
    filename: string;
    files: { path: string }[];
  }[];
  const paths = packed!.files.map(({ path }) => path);
  assert.ok(
    paths.includes('dist/main.js') && paths.includes('bin/errand.js') && paths.includes('LICENSE'),
  );
  assert.deepEqual(
    paths.filter((path) => /^(src|test|bench)\//.test(path)),
    [],
  );
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  npm(
    ['install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, packed!.filename)],
    folder,
  );
  assert.ok(
    size(join(folder, 'node_modules')) < installBytesMax,
    'a production install stays under 60 MB',
  );
  const bin = join(folder, 'node_modules', 'errand', 'bin', 'errand.js');
  const env = { ...process.env, ERRAND_HOME: join(folder, 'home') };
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [bin, ...args], { env, encoding: 'utf8', timeout: 60_000 });
  t.after(() => run('stop'));
  const answer = run('run', '--shell', 'echo packed; exit 7');
  assert.equal(answer.stdout, 'packed\n', answer.stderr);
  assert.equal(answer.status, 7);
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  assert.equal(run('--version').stdout.trim(), version);
});

function size(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
