// The installer that `npm start` and `npm test` call first.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';

const root = join(import.meta.dirname, '../..');

/** A repository with one dependency that must be downloaded. */
function repository(t: TestContext): string {
  const folder = tempFolder(t);
  mkdirSync(join(folder, 'scripts'));
  copyFileSync(join(root, 'scripts/install.cjs'), join(folder, 'scripts/install.cjs'));
  const dependencies = { 'errand-missing-package': '1.0.0' };
  const integrity = `sha512-${Buffer.alloc(64).toString('base64')}`;
  const packages = {
    '': { name: 'x', version: '1.0.0', dependencies },
    'node_modules/errand-missing-package': { version: '1.0.0', integrity },
  };
  const manifest = { name: 'x', version: '1.0.0', dependencies };
  const lock = { name: 'x', version: '1.0.0', lockfileVersion: 3, requires: true, packages };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
  return folder;
}

async function install(folder: string, env: Record<string, string>) {
  const cache = join(folder, 'cache');
  const child = spawn(process.execPath, [join(folder, 'scripts/install.cjs')], {
    env: { ...process.env, npm_config_cache: cache, npm_config_fetch_retries: '0', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return { code, stderr };
}

test('a stuck download is reported, stopped and explained', async (t) => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const registry = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
  const env = { npm_config_registry: registry, ERRAND_INSTALL_STALL_MS: '2000' };
  const { code, stderr } = await install(repository(t), env);
  assert.equal(code, 1);
  assert.match(stderr, /Still installing .* of at most 1 packages/);
  assert.match(stderr, /made no progress .* for 2 s and was stopped\. The package registry/);
});

test('a failed installation prints the command to run', async (t) => {
  const { code, stderr } = await install(repository(t), { npm_config_offline: 'true' });
  assert.equal(code, 1);
  assert.match(stderr, /npm ci failed in .* \(exit code 1\)\. Run `npm ci` there/);
});

test('every lock file is complete, so that npm ci accepts it', () => {
  for (const folder of ['', 'test', 'test/clients', 'tools', 'bench']) {
    const { packages } = JSON.parse(readFileSync(join(root, folder, 'package-lock.json'), 'utf8'));
    const names = Object.keys(packages);
    const missing = Object.values(packages as Record<string, Record<string, object>>).flatMap(
      ({ dependencies = {}, optionalDependencies = {} }) =>
        Object.keys({ ...dependencies, ...optionalDependencies }).filter(
          (name) => !names.some((path) => path.endsWith(`node_modules/${name}`)),
        ),
    );
    assert.deepEqual(missing, [], `${folder}/package-lock.json`);
    if (folder === '') {
      const unhashed = names.filter((name) => name !== '' && !packages[name].integrity);
      assert.deepEqual(unhashed, [], 'every package of the product has a hash');
    }
  }
});
