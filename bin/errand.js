#!/usr/bin/env node
// Starts Errand with a Node version that is new enough. Uses plain JavaScript that old Node versions can parse. Runs the
// TypeScript in src in a clone, and dist in a published package.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [major, minor] = process.versions.node.split('.').map(Number);
const tooOld = major < 24 || (major === 24 && minor < 15);

if (process.env.ERRAND_REEXEC) await dieWithParent();
if (tooOld) {
  await runWithNewerNode();
} else {
  const { enableCompileCache } = await import('node:module');
  enableCompileCache();
  const source = join(root, 'src', 'main.ts');
  await import(pathToFileURL(existsSync(source) ? source : join(root, 'dist', 'main.js')).href);
}

async function runWithNewerNode() {
  const node = newerNode();
  if (!node || process.env.ERRAND_REEXEC) {
    console.error(
      `errand requires Node 24.15 or newer; this is ${process.versions.node}.\n` +
        'Install a newer Node. In a clone, `npm start` installs one.',
    );
    process.exit(78);
  }
  const { spawn } = await import('node:child_process');
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

/** When the parent process is killed, this process must end too: the pipe on fd 3 closes with the parent. */
async function dieWithParent() {
  delete process.env.ERRAND_REEXEC;
  const { Socket } = await import('node:net');
  const parent = new Socket({ fd: 3 });
  parent.on('error', () => {});
  parent.on('close', () => process.kill(process.pid, 'SIGKILL'));
  parent.resume();
  parent.unref();
}

function newerNode() {
  const local = join(root, 'node_modules', 'node', 'bin', 'node');
  if (existsSync(local)) return local;
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
