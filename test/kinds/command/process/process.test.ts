// The process layer without a server: real wrappers, signals and files.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AppError } from '../../../../src/errors.ts';
import {
  LaunchFolder,
  launchFolder,
  nextLaunchFolder,
  parseExit,
  textOf,
} from '../../../../src/kinds/command/process/folder.ts';
import {
  bootId,
  isAlive,
  signalProcess,
  startOf,
} from '../../../../src/runtime/process-identity.ts';
import { readEndNote } from '../../../../src/kinds/command/process/end-reason.ts';
import { killTree } from '../../../../src/kinds/command/process/kill.ts';
import { launch, type LaunchSpec } from '../../../../src/kinds/command/process/launch.ts';
import { observe } from '../../../../src/kinds/command/process/observe.ts';
import { Registry } from '../../../../src/kinds/command/process/registry.ts';
import { resizeTerminal, Terminals } from '../../../../src/kinds/command/process/terminal.ts';
import { markHolders, markName, treeMembers } from '../../../../src/kinds/command/process/tree.ts';
import { waitForAdopted } from '../../../../src/kinds/command/process/watch.ts';
import { systemClock as clock } from '../../../../src/runtime/clock.ts';
import { until } from '../../../helpers/until.ts';

const programs = join(import.meta.dirname, '../../../fixtures/programs');
const env = { PATH: process.env.PATH ?? '/usr/bin:/bin' };
let home: string;
let count = 0;

before(() => {
  home = mkdtempSync(join(tmpdir(), 'errand-command-'));
});
after(async () => {
  for (let n = 1; n <= count; n++)
    for (const row of await markHolders(`job_test.${n}`)) process.kill(row.pid, 'SIGKILL');
  rmSync(home, { recursive: true, force: true });
});

function specOf(line: string | string[], more: Partial<LaunchSpec> = {}): LaunchSpec {
  const n = ++count;
  return {
    folder: nextLaunchFolder(join(home, String(n)), 1),
    argv: typeof line === 'string' ? ['/bin/sh', '-c', line] : line,
    cwd: home,
    env,
    attemptId: `job_test.${n}`,
    stdin: 'none',
    streams: 'merged',
    ...more,
  };
}

async function start(line: string | string[], more: Partial<LaunchSpec> = {}) {
  const spec = specOf(line, more);
  const launched = await launch(spec);
  const wrapper = await until('claimed', () => {
    const claim = spec.folder.readClaim();
    return claim.state === 'claimed' ? claim.identity : undefined;
  });
  const output = () => readFileSync(spec.folder.out, 'utf8');
  const tree = { wrapper, mark: spec.attemptId };
  return { ...spec, ...launched, output, tree, wrapper };
}

async function finish(line: string | string[], more: Partial<LaunchSpec> = {}) {
  const job = await start(line, more);
  await job.ended;
  return { ...job, record: job.folder.readExit() };
}

describe('exit record', () => {
  test('distinguishes codes, signals and CPU time', async () => {
    const cases: [string, number | null, string | null][] = [
      ['exit 0', 0, null],
      ['exit 7', 7, null],
      ['exit 143', 143, null],
      ['kill -TERM $$', null, 'SIGTERM'],
      ['kill -KILL $$', null, 'SIGKILL'],
      ['kill -SEGV $$', null, 'SIGSEGV'],
    ];
    await Promise.all(
      cases.map(async ([line, exitCode, signal]) => {
        const { record } = await finish(line);
        assert.deepEqual([record?.exitCode, record?.signal], [exitCode, signal], line);
      }),
    );
    const busy = await finish('i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done');
    assert.ok(busy.record!.cpuUserMs > 0);
    assert.ok(busy.record!.at > Date.now() - 60_000);
  });

  test('counts only if it is complete', () => {
    assert.equal(
      parseExit('', () => 0),
      undefined,
    );
    assert.equal(
      parseExit('\ncode 0\n0m0.0s 0m0.0s\n', () => 0),
      undefined,
    );
    assert.equal(
      parseExit(' '.repeat(512), () => 0),
      undefined,
    );
  });

  test('a missing command exits with 127, one without permission with 126', async () => {
    const missing = await finish(['no-such-program-here']);
    assert.equal(missing.record?.exitCode, 127);
    assert.match(missing.output(), /not found/);
    const refused = await finish([join(programs, 'ignore-term.sh')]);
    assert.equal(refused.record?.exitCode, 126);
  });

  test('a missing working directory is refused before anything runs', async () => {
    await assert.rejects(launch(specOf('true', { cwd: '/no/such/folder' })), (error) => {
      assert.ok(error instanceof AppError);
      assert.equal(error.code, 'cwdMissing');
      return true;
    });
  });
});

describe('claim', () => {
  test('a voided attempt never starts, a started one cannot be voided', async () => {
    const spec = specOf('echo ran');
    assert.equal(spec.folder.voidClaim(), true);
    const { ended } = await launch(spec);
    await ended;
    assert.equal(readFileSync(spec.folder.out, 'utf8'), '');
    assert.equal(spec.folder.readExit(), undefined);
    assert.equal(spec.folder.readClaim().state, 'void');
    const job = await start('sleep 300');
    assert.equal(job.folder.voidClaim(), false);
    await killTree(job.tree, { clock, graceMs: 5000 });
    await job.ended;
  });

  test('only the owner can read its files, the payload keeps the usual umask', async () => {
    const job = await start('umask; read -r x', { stdin: 'open' });
    await until('the holder is there', () => existsSync(job.folder.holder) && job.output());
    for (const path of [job.folder.claim, job.folder.holder, job.folder.out, job.folder.exit])
      assert.equal(statSync(path).mode & 0o077, 0, path);
    assert.equal(Number.parseInt(job.output(), 8), process.umask());
    await killTree(job.tree, { clock, graceMs: 5000 });
    await job.ended;
  });

  test('in many races, exactly one side wins', async () => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const spec = specOf('echo ran');
        const { ended } = await launch(spec);
        for (let turn = 0; turn < i * 3; turn++) await new Promise((r) => setImmediate(r));
        const voided = spec.folder.voidClaim();
        await ended;
        assert.equal(spec.folder.readExit() === undefined, voided);
        assert.equal(readFileSync(spec.folder.out, 'utf8'), voided ? '' : 'ran\n');
      }),
    );
  });

  test('a new launch of the same attempt has its own folder', () => {
    const root = join(home, 'launches');
    assert.equal(launchFolder(root, 1), undefined);
    nextLaunchFolder(root, 1).create();
    nextLaunchFolder(root, 1).create();
    nextLaunchFolder(root, 2).create();
    assert.equal(launchFolder(root, 1)?.path, join(root, '1.2'));
    assert.equal(launchFolder(root, 2)?.path, join(root, '2.1'));
  });
});

describe('streams and input', () => {
  test('merged keeps the exact order, split keeps two files', async () => {
    const line = 'for i in 1 2 3; do echo out$i; echo err$i >&2; done';
    const merged = await finish(line);
    assert.equal(merged.output(), 'out1\nerr1\nout2\nerr2\nout3\nerr3\n');
    const split = await finish(line, { streams: 'split' });
    assert.equal(split.output(), 'out1\nout2\nout3\n');
    assert.equal(readFileSync(split.folder.err, 'utf8'), 'err1\nerr2\nerr3\n');
  });

  test('empty stdin ends immediately; text is passed completely and leaves no copy', async () => {
    assert.equal((await finish('cat; echo end')).output(), 'end\n');
    const text = 'Grüße\n'.repeat(20_000);
    const job = await finish('cat', { stdin: { text } });
    assert.equal(job.output(), text);
    assert.equal(existsSync(job.folder.stdin), false);
  });

  test('open stdin accepts lines from several writers and ends with its holder', async () => {
    const job = await start('while read -r line; do echo "got $line"; done; echo over', {
      stdin: 'open',
    });
    await until('the pipe has its holder', () => existsSync(job.folder.holder));
    for (const word of ['one', 'two']) {
      writeFileSync(job.folder.stdin, `${word}\n`);
      await until(word, () => job.output().includes(`got ${word}`));
    }
    process.kill(Number(readFileSync(job.folder.holder, 'utf8')), 'SIGTERM');
    await job.ended;
    assert.equal(job.output(), 'got one\ngot two\nover\n');
    assert.equal(job.folder.readExit()?.exitCode, 0);
  });

  for (const method of ['script', 'node-pty'] as const) {
    test(`a ${method} terminal: real tty, size, resize, ctrl-c`, async (t) => {
      const terminals = new Terminals({ method: method, path: env.PATH });
      const helper = await terminals.helper().catch(() => undefined);
      if (!helper) return t.skip(`${method} is not here`);
      const line = `[ -t 0 ] && [ -t 1 ] && echo tty; stty size;
        trap 'stty size; echo int; exit 6' INT; echo ready; while :; do sleep 0.1; done`;
      const size = { cols: 99, rows: 33 };
      const job = await start(line, { terminal: { size, helper } });
      await until('ready', () => job.output().includes('ready'));
      assert.match(job.output(), /tty\r\n33 99\r\n/);
      await resizeTerminal(job.wrapper.pid, { cols: 120, rows: 40 });
      writeFileSync(job.folder.stdin, '\u0003');
      await job.ended;
      assert.match(job.output(), /40 120\r\nint/);
      assert.equal(job.folder.readExit()?.exitCode, 6);
    });
  }
});

describe('ending a tree', () => {
  test('reaches children that left group, session and parent', async () => {
    const job = await start(['/bin/sh', join(programs, 'family.sh'), home]);
    await until('ready', () => job.output().includes('ready'));
    const pids = ['background', 'session', 'orphan'].map((name) =>
      Number(readFileSync(join(home, name), 'utf8')),
    );
    for (const pid of pids) assert.ok(startOf(pid), `${pid} runs`);
    const report = await killTree(job.tree, { clock, graceMs: 10_000 });
    await job.ended;
    assert.deepEqual(report.survivors, []);
    for (const pid of pids) assert.equal(startOf(pid), undefined, `${pid} is gone`);
    assert.equal(job.folder.readExit()?.signal, 'SIGTERM');
  });

  test('reaches an orphan that cleared its environment but still prints into the log', async () => {
    const orphan = join(home, 'bare');
    const line = `(setsid env -i /bin/sh -c 'echo $$ > "$0"; exec /bin/sleep 300' ${orphan} &); sleep 300`;
    const job = await start(['/bin/sh', '-c', line]);
    const pid = await until('orphan', () => Number(textOf(orphan)?.trim()) || undefined);
    const tree = { ...job.tree, folder: job.folder.path };
    const report = await killTree(tree, { clock, graceMs: 10_000 });
    await job.ended;
    assert.deepEqual(report.survivors, []);
    assert.equal(startOf(pid), undefined);
  });

  test('a process that was inspected during an exec is still found by its mark', async () => {
    const mark = specOf('').attemptId;
    // Only one exec: a program in between would show an environment without the mark.
    const line = 'until [ -e "$0" ]; do sleep 0.02; done; export "$1"; exec sleep 300';
    const gate = join(home, 'exec');
    const child = spawn('/bin/sh', ['-c', line, gate, `${markName}=${mark}`], {
      env: {},
      stdio: 'ignore',
    });
    const wrapper = { pid: 0, start: '0', bootId: bootId() };
    const members = () => treeMembers({ wrapper, mark, groupGone: true });
    assert.deepEqual(await members(), []);
    writeFileSync(gate, '');
    const found = await until('it has the mark', async () => (await members())[0]);
    assert.equal(found.pid, child.pid);
    child.kill('SIGKILL');
  });

  test('a process that ignores SIGTERM is killed after the grace period, and its record is written', async () => {
    const job = await start(['/bin/sh', join(programs, 'ignore-term.sh')]);
    await until('ready', () => job.output().includes('ready'));
    const report = await killTree(job.tree, { clock, graceMs: 100 });
    await job.ended;
    assert.equal(report.forced, true);
    assert.deepEqual(report.survivors, []);
    assert.equal(job.folder.readExit()?.signal, 'SIGKILL');
  });

  test('a reused pid is never signalled', async () => {
    const child = spawn('sleep', ['300'], { stdio: 'ignore' });
    const identity = { pid: child.pid!, start: '1', bootId: bootId() };
    assert.equal(signalProcess(identity, 'SIGKILL'), false);
    assert.equal(isAlive({ ...identity, start: startOf(child.pid!)!, bootId: 'other' }), false);
    const tree = { wrapper: identity, mark: 'job_test.never' };
    assert.equal(
      (await treeMembers(tree)).some((row) => row.pid === child.pid),
      false,
    );
    assert.ok(startOf(child.pid!));
    child.kill('SIGKILL');
  });
});

describe('after the parent died', () => {
  test('the real exit code is read; a killed wrapper is lost', async () => {
    // A separate parent launches two jobs and is killed with SIGKILL.
    const source = `
      import { launch } from ${JSON.stringify(join(import.meta.dirname, '../../../../src/kinds/command/process/launch.ts'))};
      import { LaunchFolder } from ${JSON.stringify(join(import.meta.dirname, '../../../../src/kinds/command/process/folder.ts'))};
      const start = (name, line) => launch({ folder: new LaunchFolder(process.argv[1] + '/' + name + '/1.1'),
        argv: ['/bin/sh', '-c', line], cwd: '/', env: process.env, attemptId: 'job_orphan.' + name,
        stdin: 'none', streams: 'merged' });
      await start('a', 'echo before; while [ ! -f ' + process.argv[1] + '/go ]; do sleep 0.05; done; echo after; exit 9');
      await start('b', 'sleep 300');
      process.kill(process.pid, 'SIGKILL');`;
    const root = mkdtempSync(join(home, 'orphans-'));
    const parent = spawnSync(process.execPath, ['--input-type=module', '-e', source, root], {
      env,
    });
    assert.equal(parent.signal, 'SIGKILL', String(parent.stderr));
    const open = async (name: string) => {
      const folder = new LaunchFolder(join(root, name, '1.1'));
      const wrapper = await until('claimed', () => {
        const claim = folder.readClaim();
        return claim.state === 'claimed' ? claim.identity : undefined;
      });
      return { folder, wrapper };
    };
    const options = { clock, pollMs: 20, signal: new AbortController().signal };
    const a = await open('a');
    writeFileSync(join(root, 'go'), '');
    const end = await waitForAdopted(a.folder, a.wrapper, options);
    assert.ok(end && end !== 'lost');
    assert.equal(end.exitCode, 9);
    assert.equal(readFileSync(a.folder.out, 'utf8'), 'before\nafter\n');
    const b = await open('b');
    process.kill(b.wrapper.pid, 'SIGKILL');
    assert.equal(await waitForAdopted(b.folder, b.wrapper, options), 'lost');
    const report = await killTree(
      { wrapper: b.wrapper, mark: 'job_orphan.b' },
      { clock, graceMs: 5000 },
    );
    assert.ok(report.signalled >= 1);
    assert.deepEqual(report.survivors, []);
  });
});

describe('observation', { skip: process.platform !== 'linux' }, () => {
  test('detects reads on the job input, ports and memory; sleeping is not waiting', async () => {
    const reader = await start('read -r x; sleep 300', { stdin: 'open' });
    const look = async (job: typeof reader, path: string | undefined) =>
      observe(await treeMembers(job.tree), path);
    await until('waiting', async () => (await look(reader, reader.folder.stdin)).waitingForInput);
    writeFileSync(reader.folder.stdin, 'x\n');
    await until(
      'not waiting',
      async () => (await look(reader, reader.folder.stdin)).waitingForInput === false,
    );
    const server = await start([
      process.execPath,
      '-e',
      'require("net").createServer().listen(0, "127.0.0.1", function () { console.log(this.address().port) })',
    ]);
    const port = Number(await until('port', () => server.output().trim()));
    const seen = await look(server, undefined);
    assert.deepEqual(seen.ports, [port]);
    assert.equal(seen.waitingForInput, false);
    assert.ok(seen.memoryPeakBytes > 2 ** 20);
    for (const job of [reader, server]) {
      await killTree(job.tree, { clock, graceMs: 5000 });
      await job.ended;
    }
  });
});

test('without a server, the total limit ends the job that prints the most', async () => {
  const quiet = await start('seq 1 5000; exec sleep 300');
  const loud = await start('while :; do echo 0123456789; done');
  const registry = new Registry(home);
  for (const { attemptId, folder } of [quiet, loud])
    registry.add({
      ...{ attemptId, folder: folder.path, deadlineAt: null, maxAloneMs: null },
      ...{ maxOutputBytes: 2 ** 30, ring: false, isOrphaned: false, registeredAt: clock.now() },
    });
  registry.close();
  const main = join(import.meta.dirname, '../../../../src/kinds/command/process/guard-main.ts');
  const guard = () => spawnSync(process.execPath, [main, home, '300']);
  writeFileSync(join(home, 'room'), `${2 ** 30}\n`);
  guard();
  assert.equal(loud.folder.readExit(), undefined);
  writeFileSync(join(home, 'room'), '20000\n');
  guard();
  await loud.ended;
  assert.equal(readEndNote(loud.folder)?.reason, 'totalOutputLimit');
  assert.equal(quiet.folder.readExit(), undefined);
  await killTree(quiet.tree, { clock, graceMs: 300 });
});
