// `errand add`, `errand remove` and the handshake of `errand doctor`, with every client's files in a home of its own.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { before, describe, test, type TestContext } from 'node:test';
import { agentClients } from '../../src/agent-clients/table.ts';
import type { Finding } from '../../src/runtime/machine.ts';
import { version } from '../../src/version.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, type CliResult } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';

interface Row {
  client: string;
  state: string;
  isDone: boolean;
  file: string;
  diff?: string;
  backup?: string;
  error?: { message: string; hint: string };
}

let home: string;
before(async () => {
  ({ home } = await sharedServer());
});

interface User {
  folder: string;
  run(...args: string[]): Promise<CliResult>;
  fileOf(id: string): string;
}

/** A user who has these clients, with a program folder that has no client in it. */
function userWith(t: TestContext, ids: readonly string[]): User {
  const folder = tempFolder(t);
  const place = { platform: 'linux', userHome: folder, env: {}, cwd: folder };
  const fileOf = (id: string) => agentClients.find((each) => each.id === id)!.userFiles(place)[0]!;
  for (const id of ids) {
    mkdirSync(dirname(fileOf(id)), { recursive: true });
    if (id === 'claude-code') writeFileSync(fileOf(id), '{\n  "numStartups": 3\n}');
  }
  const env = { HOME: folder, PATH: '/usr/bin:/bin', XDG_CONFIG_HOME: '' };
  return { folder, fileOf, run: (...args) => cli(home, args, env, { cwd: folder, stdin: '' }) };
}

const rowsOf = (result: CliResult) => result.json<{ clients: Row[] }>().clients;
const all = agentClients.map(({ id }) => id);

test('every client on the machine is connected, once, and disconnected without a trace', async (t) => {
  const user = userWith(t, all);
  const dry = await user.run('add', '--dry-run');
  assert.equal(dry.code, 0, dry.stderr);
  assert.match(dry.stdout, /^Codex\n {2}--- .*config\.toml\n/m);
  assert.match(dry.stdout, /^ {2}\+\[mcp_servers\.errand\]$/m);
  assert.ok(!existsSync(user.fileOf('codex')), '--dry-run writes nothing');
  const refused = await user.run('add');
  assert.deepEqual([refused.code, /--yes/.test(refused.stderr)], [2, true]);
  const added = rowsOf(await user.run('add', '--skill', '--yes', '--json'));
  assert.deepEqual(
    added.map(({ client, state, isDone }) => [client, state, isDone]),
    all.map((id) => [id, 'add', true]),
  );
  for (const id of all) {
    const text = readFileSync(user.fileOf(id), 'utf8');
    assert.ok(text.includes(process.execPath) && text.includes(bin), `${id} has absolute paths`);
    assert.ok(text.includes(home), `${id} names the home`);
  }
  const skill = readFileSync(join(user.folder, '.claude/skills/errand/SKILL.md'), 'utf8');
  assert.match(skill, /^---\nname: errand\ndescription: /);
  const again = rowsOf(await user.run('add', '--skill', '--yes', '--json'));
  assert.ok(again.every(({ state }) => state === 'unchanged'));
  assert.equal((await user.run('add')).code, 0, 'nothing to ask');
  const doctor = await user.run('doctor', '--json');
  const { findings } = doctor.json<{ findings: Finding[] }>();
  for (const { name } of agentClients) {
    const finding = findings.find((each) => each.name === name);
    assert.match(
      finding?.text ?? '',
      new RegExp(`^connected to errand ${version} \\(12 tools\\)$`),
      name,
    );
  }
  assert.equal((await user.run('remove', '--yes')).code, 0);
  assert.equal(readFileSync(user.fileOf('claude-code'), 'utf8'), '{\n  "numStartups": 3\n}');
  const left = readdirSync(user.folder, { recursive: true, withFileTypes: true });
  assert.deepEqual(
    left.filter((entry) => entry.isFile()).map(({ name }) => name),
    ['.claude.json'],
  );
});

describe('over HTTP', () => {
  test('a narrow key is in the file only; remove revokes it', async (t) => {
    const user = userWith(t, ['cursor', 'claude-desktop']);
    const printed = await user.run('add', '--http', '--yes');
    assert.equal(printed.code, 1, 'Claude Desktop connects only to local commands');
    assert.match(printed.stdout, /✗ Claude Desktop: .*only to local commands/);
    const { mcpServers } = JSON.parse(readFileSync(user.fileOf('cursor'), 'utf8')) as {
      mcpServers: { errand: { url: string; headers: { Authorization: string } } };
    };
    const key = mcpServers.errand.headers.Authorization.replace('Bearer ', '');
    assert.ok(!printed.stdout.includes(key) && !printed.stderr.includes(key));
    const base = new URL(mcpServers.errand.url).origin;
    const status = async (path: string) =>
      (await fetch(base + path, { headers: { authorization: `Bearer ${key}` } })).status;
    assert.deepEqual([await status('/api/jobs'), await status('/api/keys')], [200, 403]);
    const doctor = await user.run('doctor');
    assert.match(doctor.stdout, /^✓ Cursor: connected to errand .* at http:\/\/127\.0\.0\.1/m);
    const again = rowsOf(await user.run('add', 'cursor', '--http', '--yes', '--json'));
    assert.equal(again[0]!.state, 'unchanged');
    assert.equal((await user.run('remove', 'cursor', '--yes')).code, 0);
    assert.equal(await status('/api/jobs'), 401);
    // An entry whose key no longer works gets a new key.
    const stale = JSON.stringify({ mcpServers });
    writeFileSync(user.fileOf('cursor'), stale);
    const renewed = rowsOf(await user.run('add', 'cursor', '--http', '--yes', '--json'));
    assert.equal(renewed[0]!.state, 'update');
    assert.match((await user.run('doctor')).stdout, /^✓ Cursor: connected/m);
    assert.ok(!readFileSync(user.fileOf('cursor'), 'utf8').includes(key));
    assert.equal((await user.run('remove', 'cursor', '--yes')).code, 0);
  });
});

test('one client with a problem does not keep the others from being connected', async (t) => {
  const user = userWith(t, ['codex', 'gemini-cli']);
  writeFileSync(user.fileOf('gemini-cli'), '{"mcpServers": ');
  const result = await user.run('add', '--yes');
  assert.equal(result.code, 1);
  assert.match(result.stdout, /^✓ Codex: connected/m);
  assert.match(result.stdout, /^✗ Gemini CLI: .*cannot be parsed: .*\n {4}.*was not changed/m);
  assert.equal(readFileSync(user.fileOf('gemini-cli'), 'utf8'), '{"mcpServers": ');
  const doctor = await user.run('doctor');
  assert.match(doctor.stdout, /^✗ Gemini CLI: .*cannot be parsed/m);
});

test('a project has files of its own; an entry that does not work is reported', async (t) => {
  const user = userWith(t, ['cursor']);
  const added = rowsOf(await user.run('add', 'cursor', 'codex', '--project', '--yes', '--json'));
  assert.deepEqual(
    added.map(({ file }) => file),
    ['.cursor/mcp.json', '.codex/config.toml'].map((file) => join(user.folder, file)),
  );
  writeFileSync(user.fileOf('cursor'), '{"mcpServers": {"errand": {"command": "/no/such/node"}}}');
  const doctor = await user.run('doctor');
  assert.match(doctor.stdout, /^✗ Cursor: cannot connect: .*ENOENT\n {4}`errand add cursor`/m);
  const none = userWith(t, []);
  const result = await none.run('add', '--yes');
  assert.deepEqual([result.code, /No agent client was found/.test(result.stderr)], [4, true]);
  const unknown = await none.run('add', 'emacs');
  assert.deepEqual([unknown.code, /Known clients: claude-code/.test(unknown.stderr)], [2, true]);
});
