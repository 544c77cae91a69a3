// `errand watch`: one line per job that needs attention, exactly once, across restarts of the watcher and the server.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test, type TestContext } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { bin, cli, serverEnv, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Notice {
  cursor: string;
  reason: string;
  name: string;
  exitCode?: number;
  lines?: string[];
}

function startWatch(t: TestContext, home: string, args: string[], cwd = home) {
  const child = spawn(process.execPath, [bin, 'watch', ...args], {
    cwd,
    env: serverEnv(home),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  t.after(kill);
  return { lines, exited, kill };
}

const run = async (server: TestServer, input: object) =>
  (await server.api('POST', '/api/commands', { waitMs: 0, ...input })).json<{ id: string }>();

test('every event that needs attention is printed exactly once', async (t) => {
  const home = homeWith(t, { command: { minSlowMs: 300, slowFactor: 2, checkMs: 50 } });
  const folder = tempFolder(t);
  const resume = join(folder, 'cursor');
  let server = await startServer(t, { home });
  const args = ['--format', 'json', '--resume', resume];
  const first = startWatch(t, home, args);
  await until('it watches', () => existsSync(resume));
  const begin = readFileSync(resume, 'utf8').trim();
  const seen: string[] = [];
  const notices = () => seen.map((line) => JSON.parse(line) as Notice);
  const reasons = (name: string) =>
    notices().flatMap((notice) => (notice.name === name ? [notice.reason] : []));
  const failing =
    'echo "PASS a"; echo "FAIL tests/cart.test.ts:14: expected 21, received 20"; exit 3';
  await run(server, { name: 'suite', command: failing });
  await run(server, {
    name: 'dev',
    command: 'echo listening; exec sleep 300',
    ready: { text: 'listening' },
  });
  const sub = join(folder, 'project');
  mkdirSync(sub);
  await run(server, { name: 'here', command: 'true', cwd: sub });
  const slow = { name: 'slow', command: '[ ! -e slow ] || exec sleep 300', cwd: folder };
  for (let count = 0; count < 3; count++)
    await run(server, { ...slow, name: 'quick', waitMs: 20_000 });
  writeFileSync(join(folder, 'slow'), '');
  await run(server, slow);
  const read = (from: { lines: string[] }) => seen.push(...from.lines.splice(0));
  await until('everything was printed', () => {
    read(first);
    return ['suite', 'dev', 'here', 'slow'].every((name) => reasons(name).length > 0);
  });
  assert.deepEqual(reasons('dev'), ['ready']);
  assert.deepEqual(reasons('slow'), ['slower_than_usual']);
  const suite = notices().find(({ name }) => name === 'suite')!;
  assert.deepEqual([suite.reason, suite.exitCode], ['failed', 3]);
  assert.match(suite.lines!.join('\n'), /FAIL tests\/cart\.test\.ts:14/);

  // Both the watcher and the server are killed; what happened in between is printed by the next watcher.
  // A watcher that is killed between a line and its stored position would repeat that line.
  await until('the position is stored', () => {
    read(first);
    return readFileSync(resume, 'utf8').trim() === String(notices().at(-1)!.cursor);
  });
  await first.kill();
  read(first);
  await run(server, { name: 'between', command: 'true', waitMs: 20_000 });
  await server.kill();
  server = await startServer(t, { home });
  const second = startWatch(t, home, args);
  await run(server, { name: 'after', command: 'read answer', stdin: 'open' });
  await until('the rest was printed', () => {
    read(second);
    return reasons('after').length > 0;
  });
  assert.deepEqual([reasons('between'), reasons('after')], [['completed'], ['input_required']]);
  for (const name of ['suite', 'dev', 'here', 'slow']) assert.equal(reasons(name).length, 1, name);
  const cursors = notices().map(({ cursor }) => Number(cursor));
  assert.deepEqual(
    cursors,
    [...new Set(cursors)].toSorted((a, b) => a - b),
  );

  // A crawl has no folder of its own: it belongs to the folder from which it was started.
  const beforeCrawl = startWatch(
    t,
    home,
    ['--mine', '--once', '--cursor', notices().at(-1)!.cursor],
    sub,
  );
  const crawl = ['crawl', 'http://127.0.0.1:9/', '--allow-private', '--detach'];
  for (const cwd of [folder, sub])
    assert.equal((await cli(home, [...crawl, '--name', `crawl of ${cwd}`], {}, { cwd })).code, 0);
  assert.deepEqual((await beforeCrawl.exited)[0], 0);
  assert.match(beforeCrawl.lines[0]!, new RegExp(`"crawl of ${sub}"`));

  // Text, and only the jobs of one folder.
  const mine = startWatch(t, home, ['--mine', '--once', '--cursor', begin], sub);
  assert.deepEqual((await mine.exited)[0], 0);
  assert.match(mine.lines[0]!, /^job_\w+ "here" completed with exit code 0 after /);
  const named = startWatch(t, home, ['--name', 'suite', '--once', '--cursor', begin]);
  await named.exited;
  assert.match(named.lines[0]!, /"suite" failed with exit code 3 after .*: .*FAIL tests\/cart/);
});
