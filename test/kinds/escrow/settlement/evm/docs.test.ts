// Runs the local-chain commands of docs/escrow.md exactly as written, in order, with another port.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../../../helpers/folder.ts';
import { freePort } from '../../../../helpers/port.ts';
import { anvilBinary } from './anvil.ts';

const root = join(import.meta.dirname, '../../../../..');

const deep = process.env.ERRAND_TEST_DEEP === '1';

test(
  'the chain section of docs/escrow.md runs from the first to the last command',
  { skip: !deep },
  async (t) => {
    const page = readFileSync(join(root, 'docs/escrow.md'), 'utf8');
    const section = page.slice(
      page.indexOf('## Settlement on an EVM chain'),
      page.indexOf('## CardZero'),
    );
    const blocks = [...section.matchAll(/```sh\n(.*?)```/gs)].map(([, text]) => text!);
    assert.equal(blocks.length, 2, 'installing Anvil, and the walkthrough');
    const folder = tempFolder(t);
    for (const name of ['scripts', 'src', 'test', 'node_modules', 'package.json'])
      symlinkSync(join(root, name), join(folder, name));
    const bin = tempFolder(t);
    symlinkSync(anvilBinary(), join(bin, 'anvil'));
    const errand = `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'bin/errand.js')}" "$@"\n`;
    writeFileSync(join(bin, 'errand'), errand, { mode: 0o755 });
    const port = String(await freePort());
    const script = `set -eEu -o pipefail\n${blocks[1]!.replaceAll('8545', port)}`;
    // Cleans up if a command fails midway.
    const guard = `trap 'errand stop >/dev/null 2>&1 || :; kill "$ANVIL" 2>/dev/null || :' ERR\n`;
    const path = `${bin}:${join(process.execPath, '..')}:${process.env.PATH}`;
    const child = spawn('bash', ['-c', guard + script], {
      cwd: folder,
      env: { ...process.env, PATH: path },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => (output += part));
    const code = await new Promise((resolve) => child.on('close', resolve));
    assert.equal(code, 0, output);
    assert.match(output, /25\.00/);
    assert.match(output, /1\.86/, 'the provider is paid');
    assert.match(output, /0\.14 sent to 0xf39f/, 'the fees of 2 and 5 percent are withdrawn');
  },
);
