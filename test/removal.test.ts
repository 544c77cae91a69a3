// A kind consists of a folder, its dialects and their lines in app.ts. Without them, the rest compiles and runs.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { bundle } from '../scripts/bundle.ts';
import { tempFolder } from './helpers/folder.ts';
import { until } from './helpers/until.ts';

const root = join(import.meta.dirname, '..');

/** The dialects of each kind, and a command that only this kind has. */
const parts: Record<string, { dialects: string[]; word: string }> = {
  command: { dialects: ['background-job'], word: 'signal' },
  endpoint: { dialects: ['runpod'], word: 'endpoint save' },
  web: { dialects: ['firecrawl', 'searchclaw'], word: 'crawl' },
  escrow: { dialects: ['cardzero'], word: 'work post' },
};
const names = Object.keys(parts);

test('this test removes every kind and dialect', () => {
  assert.deepEqual(readdirSync(join(root, 'src/kinds')).toSorted(), names.toSorted());
  const dialects = names.flatMap((name) => parts[name]!.dialects);
  assert.deepEqual(readdirSync(join(root, 'src/dialects')).toSorted(), dialects.toSorted());
});

// Kinds never import each other. If the rest compiles without all of them, it compiles without any one of them.
test('the rest compiles without any kind', (t) => {
  const folder = treeWithout(t, names);
  const tsc = join(root, 'node_modules/.bin/tsc');
  const config = join(folder, 'tsconfig.json');
  const settings = JSON.parse(readFileSync(config, 'utf8')) as object;
  writeFileSync(config, JSON.stringify({ ...settings, include: ['src'] }));
  execFileSync(tsc, ['--noEmit', '-p', config], { cwd: folder, stdio: 'pipe' });
});

for (const name of names) {
  test(`without ${name} the server starts and offers the commands and views of the other kinds`, async (t) => {
    const folder = treeWithout(t, [name]);
    // Bundled as the package is, because starting a server from hundreds of new files takes seconds.
    await bundle(join(folder, 'src'), join(folder, 'dist'));
    rmSync(join(folder, 'src'), { recursive: true });
    const home = join(folder, 'home');
    const run = (...args: string[]) => {
      const env = { ...process.env, ERRAND_HOME: home };
      const bin = join(folder, 'bin/errand.js');
      const result = spawnSync(process.execPath, [bin, ...args], { env, encoding: 'utf8' });
      assert.equal(result.status, 0, result.stderr);
      return result.stdout;
    };
    try {
      assert.deepEqual(JSON.parse(run('list', '--json')), { jobs: [] });
      const help = run('help', 'all');
      const offers = (word: string) => new RegExp(`^ *${word}(?: |$)`, 'm').test(help);
      assert.deepEqual(
        names.filter((one) => offers(parts[one]!.word)),
        names.filter((one) => one !== name),
      );
      // The dashboard has views for these kinds only.
      const { server } = JSON.parse(run('whoami', '--json')) as { server: { kinds: string[] } };
      assert.deepEqual(server.kinds.toSorted(), names.filter((one) => one !== name).toSorted());
    } finally {
      run('stop');
      await until('the server is gone', () => !existsSync(join(home, 'server.pid')));
    }
  });
}

function treeWithout(t: TestContext, kinds: readonly string[]): string {
  const folder = tempFolder(t);
  for (const part of ['src', 'bin', 'package.json', 'tsconfig.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const gone = kinds.flatMap((kind) => [
    { path: `kinds/${kind}`, value: `${kind}Plugin` },
    ...parts[kind]!.dialects.map((name) => ({ path: `dialects/${name}`, value: dialectOf(name) })),
  ]);
  for (const { path } of gone) rmSync(join(folder, 'src', path), { recursive: true });
  const app = join(folder, 'src/app.ts');
  const lines = readFileSync(app, 'utf8').split('\n');
  const isGone = (line: string) =>
    gone.some(({ path, value }) => line.includes(`./${path}/`) || line.trim() === `${value},`);
  writeFileSync(app, lines.filter((line) => !isGone(line)).join('\n'));
  return folder;
}

/** `background-job` → `backgroundJobDialect`. */
const dialectOf = (name: string): string =>
  `${name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())}Dialect`;
