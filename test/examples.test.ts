// Runs every example: the command in the `sh` block of its README prints the `text` block, where … matches anything within
// a line. All folders are tested, so an example without a README or with different output fails.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { signWebhook } from '../src/webhooks/signature.ts';
import { tempFolder } from './helpers/folder.ts';
import { serverEnv } from './helpers/server.ts';
import { sharedServer } from './helpers/shared-server.ts';

const root = join(import.meta.dirname, '..');
const folder = join(root, 'examples');
const examples = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const readme = (name: string): string => readFileSync(join(folder, name, 'README.md'), 'utf8');

/** The only fenced block of this language. */
function block(page: string, language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm'))];
  assert.equal(blocks.length, 1, `one block \`${language}\``);
  return blocks[0]![1]!;
}

const pattern = (expected: string): RegExp =>
  new RegExp(`^${expected.split('…').map(RegExp.escape).join('.*')}$`);

/** Runs a line in the shell of a user in a clone of the repository, with the shared server. */
async function paste(t: TestContext, line: string) {
  const cwd = tempFolder(t);
  symlinkSync(folder, join(cwd, 'examples'));
  const { home } = await sharedServer();
  const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const options = { cwd, env: { ...serverEnv(home), PATH: path }, timeout: 120_000 };
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile('sh', ['-c', line], options, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
    );
  });
}

for (const name of examples)
  test(`examples/${name} prints the output in its README`, async (t) => {
    const page = readme(name);
    const pasted = await paste(t, block(page, 'sh'));
    assert.equal(pasted.code, 0, pasted.stderr);
    assert.match(pasted.stdout, pattern(block(page, 'text')));
  });

test('the webhook receiver accepts only signed and recent messages', async () => {
  const path = join(folder, 'webhook-receiver/verify.js');
  const { isAuthentic } = (await import(path)) as {
    isAuthentic(secret: string, headers: Record<string, string>, body: string): boolean;
  };
  const key = randomBytes(32);
  const secret = `whsec_${key.toString('base64')}`;
  const now = Math.floor(Date.now() / 1000);
  const signed = (timestamp: number, body: string) =>
    signWebhook({ id: 'msg_1', timestamp, body, secret: key });
  const headers = signed(now, '{"n":1}');
  assert.ok(isAuthentic(secret, headers, '{"n":1}'));
  const rotated = `v1,AAAA ${headers['webhook-signature']}`;
  assert.ok(isAuthentic(secret, { ...headers, 'webhook-signature': rotated }, '{"n":1}'));

  assert.ok(!isAuthentic(secret, headers, '{"n":2}'));
  assert.ok(!isAuthentic(secret, { ...headers, 'webhook-id': 'msg_2' }, '{"n":1}'));
  assert.ok(!isAuthentic(secret, { ...headers, 'webhook-signature': 'v1,' }, '{"n":1}'));
  assert.ok(!isAuthentic(secret, signed(now - 600, '{"n":1}'), '{"n":1}'));
  assert.ok(!isAuthentic(secret, {}, '{"n":1}'));
});

test('the examples leave nothing behind', async () => {
  const server = await sharedServer();
  const { jobs } = (await server.api('GET', '/api/jobs')).json<{ jobs: unknown[] }>();
  assert.deepEqual(jobs, []);
  const homes = readdirSync(tmpdir()).filter((entry) => entry.startsWith('errand-example-'));
  assert.deepEqual(homes, []);
});

test('example READMEs are short and link every file; the index links every example', () => {
  const index = readFileSync(join(folder, 'README.md'), 'utf8');
  for (const name of examples) {
    const page = readme(name);
    const lines = page.trimEnd().split('\n').length;
    assert.ok(lines >= 10 && lines <= 30, `examples/${name}/README.md has ${lines} lines`);
    for (const file of readdirSync(join(folder, name)).filter((entry) => entry.endsWith('.js')))
      assert.ok(page.includes(`](${file})`), `examples/${name}/README.md links to ${file}`);
    assert.ok(index.includes(`](${name}/)`), `examples/README.md links to ${name}`);
  }
});
