// Commands in the docs can be pasted: the blocks of these sections run unchanged in the shell of a new user.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { freePort } from './helpers/port.ts';
import { tempFolder } from './helpers/folder.ts';
import { bin } from './helpers/server.ts';

const root = join(import.meta.dirname, '..');

/** The shell blocks below a heading. */
function blocks(page: string, heading: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const [, after] = text.split(`${heading}\n`);
  assert.ok(after !== undefined, `${page} has ${heading}`);
  const [section] = after.split(/\n## /);
  return [...section!.matchAll(/```sh\n([^]*?)```/g)].map(([, block]) => block!);
}

async function paste(t: TestContext, script: string, files: Record<string, string> = {}) {
  const folder = tempFolder(t);
  symlinkSync(bin, join(folder, 'errand'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const port = String(await freePort());
  const { ERRAND_HOME: _home, ERRAND_STORE: _store, ...inherited } = process.env;
  const env = {
    ...inherited,
    HOME: folder,
    XDG_DATA_HOME: join(folder, 'data'),
    PATH: [folder, dirname(process.execPath), process.env.PATH].join(delimiter),
    ERRAND_PORT: port,
    ERRAND_IDLE_EXIT_MS: '1000',
  };
  const text = script.replaceAll('127.0.0.1:7411', `127.0.0.1:${port}`);
  const run = (line: string) =>
    new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
      const options = { env, cwd: folder, timeout: 120_000 };
      execFile('bash', ['-c', line], options, (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
      );
    });
  // A background server keeps the pipes of the shell open, so the same script stops it.
  return run(`set -e\n${text}\nerrand stop > /dev/null`);
}

test('docs/cli.md: names for jobs, and backups', async (t) => {
  const [names] = blocks('docs/cli.md', '## Names for jobs');
  const pasted = await paste(t, names!);
  assert.equal(pasted.code, 0, pasted.stderr);
  assert.match(pasted.stdout, /two\n/);
  const [backups] = blocks('docs/cli.md', '## Backup');
  const saved = await paste(t, backups!);
  assert.equal(saved.code, 0, saved.stderr);
});

test('docs/command.md: the introduction', async (t) => {
  const [first] = blocks('docs/command.md', '# Commands');
  const pasted = await paste(t, first!, { 'notes.txt': 'one\ntwo\n' });
  assert.equal(pasted.code, 0, pasted.stderr);
  assert.match(pasted.stdout, /42/);
});

test('docs/endpoint.md: five minutes', async (t) => {
  const page = readFileSync(join(root, 'docs/endpoint.md'), 'utf8');
  const handler = /```js\n\/\/ double\.mjs\n([^]*?)```/.exec(page)![1]!;
  const [first] = blocks('docs/endpoint.md', '## Five minutes: handler in, curl out');
  const pasted = await paste(t, first!, { 'double.mjs': handler });
  assert.equal(pasted.code, 0, pasted.stderr);
  assert.match(pasted.stdout, /"output":\{"doubled":42\}/);
});

test('README.md: the 60-second tour', async (t) => {
  const [tour] = blocks('README.md', '## A 60-second tour');
  const pasted = await paste(t, tour!);
  assert.equal(pasted.code, 0, pasted.stderr);
  assert.match(pasted.stdout, /building\ndone/);
  assert.match(pasted.stdout, /2:FAIL b\.test\.ts:14/);
  assert.match(pasted.stdout, /failed · command "tests" · exit code 1/);
});

test('docs/escrow.md: two agents, one hire; then again with their own keys', async (t) => {
  const hires = blocks('docs/escrow.md', '## Two agents, one hire, five minutes');
  assert.equal(hires.length, 2);
  // The second block follows the first, as on the page.
  const pasted = await paste(t, hires.join('\n'));
  assert.equal(pasted.code, 0, pasted.stderr + pasted.stdout);
  assert.match(pasted.stdout, /provider\s+active\s+1\.86/);
  assert.match(pasted.stdout, /fees earned: platform 0\.04, evaluators 0\.10/);
  assert.doesNotMatch(pasted.stdout.split('alice')[0]!, /\b2000000\b|\b25000000\b/);
  assert.match(pasted.stdout, /"outcome":"approved"/);
});
