#!/usr/bin/env node
// Starts Errand with a Node that is new enough. Plain old JavaScript, so that an old Node can read it:
// in a clone it runs src (TypeScript, as it is), in a package dist.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [major, minor] = process.versions.node.split('.').map(Number);
const tooOld = major < 24 || (major === 24 && minor < 15);

if (process.env.ERRAND_REEXEC) dieWithParent();
if (tooOld) {
  runWithNewerNode();
} else {
  const { enableCompileCache } = await import('node:module');
  enableCompileCache();
  const source = join(root, 'src', 'main.ts');
  await import(pathToFileURL(existsSync(source) ? source : join(root, 'dist', 'main.js')).href);
}

function runWithNewerNode() {
  const node = newerNode();
  if (!node || process.env.ERRAND_REEXEC) {
    console.error(
      `errand needs Node 24.15 or newer; this is ${process.versions.node}.\n` +
        'Install a newer Node, or run `npm start` once in a clone: it brings its own.',
    );
    process.exit(78);
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, ERRAND_REEXEC: '1' },
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code ?? 70);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** Whoever kills this program by its first process means this one: the pipe on fd 3 ends with that process. */
function dieWithParent() {
  delete process.env.ERRAND_REEXEC;
  const parent = new Socket({ fd: 3 });
  parent.on('error', () => {});
  parent.on('close', () => process.kill(process.pid, 'SIGKILL'));
  parent.resume();
  parent.unref();
}

function newerNode() {
  const beside = join(root, 'node_modules', 'node', 'bin', 'node');
  if (existsSync(beside)) return beside;
  try {
    const found = join(
      dirname(createRequire(import.meta.url).resolve('node/package.json')),
      'bin',
      'node',
    );
    return existsSync(found) ? found : undefined;
  } catch {
    return undefined;
  }
}
