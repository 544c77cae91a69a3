// The published package: packs it, installs it into an empty folder without development dependencies, and runs it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';

const root = join(import.meta.dirname, '..', '..');
const maxInstallBytes = 60 * 1024 * 1024;
const maxPackedBytes = 6 * 1024 * 1024;

test('the package installs into an empty folder, stays small and runs a job', (t) => {
  const folder = tempFolder(t);
  const npm = (args: string[], cwd: string) =>
    execFileSync('npm', [...args, '--loglevel=error'], { cwd, encoding: 'utf8', timeout: 180_000 });
  const printed = npm(['pack', '--json', '--pack-destination', folder], copyOfSource(folder));
  // JSON follows the build output: a list up to npm 11, an object since npm 12.
  const [packed] = Object.values(JSON.parse(printed.slice(printed.search(/^[[{]/m)))) as [
    { filename: string; files: { path: string }[] },
  ];
  const paths = packed.files.map(({ path }) => path);
  assert.ok(
    paths.includes('dist/main.js') && paths.includes('bin/errand.js') && paths.includes('LICENSE'),
  );
  assert.deepEqual(
    paths.filter((path) => /^(src|test|bench)\//.test(path)),
    [],
  );
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  npm(
    ['install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, packed.filename)],
    folder,
  );
  checkContents(paths);
  assert.ok(statSync(join(folder, packed.filename)).size < maxPackedBytes, 'the tarball is small');
  assert.ok(
    size(join(folder, 'node_modules')) < maxInstallBytes,
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
  // The same tarball as a global installation, and through npx.
  const tarball = join(folder, packed.filename);
  const global = join(folder, 'global');
  npm(
    ['install', '--global', '--prefix', global, '--prefer-offline', '--no-audit', tarball],
    folder,
  );
  const path = `${join(process.execPath, '..')}:${join(global, 'bin')}:/usr/bin:/bin`;
  const installed = spawnSync('errand', ['--version'], {
    env: { ...env, PATH: path },
    encoding: 'utf8',
  });
  assert.equal(installed.stdout.trim(), version, installed.stderr);
  const user = { ...env, PATH: path, HOME: join(folder, 'user') };
  const added = spawnSync('errand', ['add', 'codex', '--skill', '--yes'], {
    env: user,
    encoding: 'utf8',
    cwd: folder,
  });
  assert.equal(added.status, 0, added.stdout + added.stderr);
  const config = readFileSync(join(folder, 'user', '.codex', 'config.toml'), 'utf8');
  assert.ok(config.includes(join(global, 'lib/node_modules/errand/bin/errand.js')), config);
  const throughNpx = spawnSync('npx', ['--no-install', 'errand', '--version'], {
    cwd: folder,
    env: { ...env, PATH: `${join(process.execPath, '..')}:${process.env.PATH}` },
    encoding: 'utf8',
  });
  assert.equal(throughNpx.stdout.trim(), version, throughNpx.stderr);
  // The bundle and modules imported on demand must share the same error class.
  const unknown = run('logs', 'no-such-job');
  assert.deepEqual(
    [unknown.status, unknown.stderr.split('\n')[0]],
    [4, 'errand: Job no-such-job does not exist.'],
  );
});

function checkContents(paths: readonly string[]): void {
  const top = new Set(paths.map((path) => path.split('/')[0]!));
  const expected = [
    '.claude-plugin',
    'LICENSE',
    'README.md',
    'bin',
    'dist',
    'docs',
    'package.json',
    'plugin',
  ];
  assert.deepEqual([...top].toSorted(), [...expected, 'server.json']);
  for (const path of ['plugin/skills/errand/SKILL.md', 'plugin/monitors/monitors.json'])
    assert.ok(paths.includes(path), path);
}

/** Packing writes dist. A copy is used, because other tests read the package files of the repository concurrently. */
function copyOfSource(folder: string): string {
  const copy = join(folder, 'source');
  const parts = [
    '.claude-plugin',
    'bin',
    'docs',
    'plugin',
    'scripts',
    'src',
    'README.md',
    'LICENSE',
    'package.json',
  ];
  for (const part of [...parts, 'server.json', 'tsconfig.json'])
    cpSync(join(root, part), join(copy, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

function size(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
