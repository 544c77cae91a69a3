// Selection of the terminal helper, and the error on a machine without one.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { checkTerminal } from '../../../../src/kinds/command/doctor.ts';
import { isNodePtyInstalled, Terminals } from '../../../../src/kinds/command/process/terminal.ts';
import { thisMachine } from '../../../../src/runtime/machine.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { start } from '../kit.ts';

describe('a machine without script(1)', () => {
  test('and without node-pty: the job fails with installation instructions', async (t) => {
    const folder = tempFolder(t);
    const { run, read } = await start(t, { terminal: 'script' }, { PATH: folder });
    const origin = { cwd: folder, env: { PATH: process.env.PATH! } };
    const view = await run({ command: 'touch started', tty: true }, { origin });
    assert.deepEqual(
      [view.status, view.exitCode, view.error?.code],
      ['failed', null, 'unsupported'],
    );
    assert.match(view.error!.message, /no helper program to run a command in a terminal/);
    assert.match(
      view.error!.hint!,
      /Install util-linux \(script\) or run `npm i @lydell\/node-pty`/,
    );
    assert.equal((await read(view.id)).size, 0);
    assert.equal((await run({ command: 'ls' }, { origin })).output, undefined, 'it never started');
  });

  test('but with node-pty: node-pty is used', async (t) => {
    if (!isNodePtyInstalled()) return t.skip('node-pty is not installed');
    const folder = tempFolder(t);
    const { run } = await start(t, {}, { PATH: folder });
    const origin = { cwd: folder, env: { PATH: process.env.PATH! } };
    const view = await run({ command: '[ -t 0 ] && [ -t 1 ] && echo tty', tty: true }, { origin });
    assert.deepEqual([view.status, view.output?.text], ['completed', 'tty\n']);
  });

  test('a script(1) that is not from util-linux (macOS) is not used', async (t) => {
    const path = tempFolder(t);
    writeFileSync(join(path, 'script'), '#!/bin/sh\nexit 64\n', { mode: 0o755 });
    const none = new Terminals({ method: 'auto', path, hasNodePty: () => false });
    await assert.rejects(none.helper(), { code: 'unsupported' });
    const other = new Terminals({ method: 'auto', path, hasNodePty: () => true });
    assert.deepEqual(await other.helper(), { method: 'node-pty', program: process.execPath });
  });
});

test('a caller whose PATH lacks script(1) still gets a terminal', async (t) => {
  const { run } = await start(t, { terminal: 'script' });
  const bare = tempFolder(t);
  const view = await run(
    { argv: ['/bin/sh', '-c', '[ -t 0 ] && echo tty'], tty: true },
    { origin: { cwd: bare, env: { PATH: bare } } },
  );
  assert.deepEqual([view.status, view.output?.text], ['completed', 'tty\n']);
});

test('doctor reports the terminal helper, or what to install', (t) => {
  const root = tempFolder(t);
  const machine = (platform: string) => ({ ...thisMachine({ PATH: '/' }, root), platform });
  const look = (method: 'auto' | 'script' | 'node-pty', platform = 'linux', pty = false) =>
    checkTerminal({ terminal: method }, machine(platform), () => pty);
  assert.equal(look('auto').state, 'note');
  assert.match(look('auto').hint!, /Install util-linux/);
  assert.match(look('auto', 'linux', true).text, /node-pty/);
  writeFileSync(join(root, 'script'), '');
  assert.match(look('auto').text, /\(script\)/);
  assert.equal(look('node-pty').state, 'note');
  assert.equal(look('auto', 'darwin').state, 'note', 'on macOS, script is a different program');
});
