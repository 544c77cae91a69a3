// Config files of agent clients: where they are, what is written, and what happens to files that must not be touched.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { applyAdd, applyRemove, planAdd, type Deps } from '../../src/agent-clients/changes.ts';
import { readConfigFile, replaceConfigFile } from '../../src/agent-clients/config-file.ts';
import { connectionOf, type Connection } from '../../src/agent-clients/connection.ts';
import { diffText } from '../../src/agent-clients/diff.ts';
import { findClients } from '../../src/agent-clients/find.ts';
import { agentClients, type UserPlace } from '../../src/agent-clients/table.ts';
import { ManualClock, systemClock } from '../../src/runtime/clock.ts';
import { tempFolder } from '../helpers/folder.ts';

const stdio: Connection = { command: '/node', args: ['/errand.js', 'mcp'] };
const http: Connection = { url: 'http://127.0.0.1:7411/mcp', key: 'errand_secret' };
const clientOf = (id: string) => agentClients.find((client) => client.id === id)!;

interface World extends Deps {
  put(path: string, text: string): string;
  place: UserPlace;
}

function world(t: TestContext, env: Record<string, string> = {}): World {
  const userHome = tempFolder(t);
  const cwd = join(userHome, 'project');
  mkdirSync(cwd);
  return {
    place: { platform: 'linux', userHome, env, cwd },
    clock: systemClock,
    put: (path, text) => {
      const file = join(userHome, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
      return file;
    },
  };
}

const user = (id: string) => ({ client: clientOf(id), scope: 'user' }) as const;
const project = (id: string) => ({ client: clientOf(id), scope: 'project' }) as const;

describe('where clients keep their settings', () => {
  const expected: Record<string, [linux: string, darwin: string, win32: string]> = {
    'claude-code': ['.claude.json', '.claude.json', '.claude.json'],
    'claude-desktop': [
      '.config/Claude/claude_desktop_config.json',
      'Library/Application Support/Claude/claude_desktop_config.json',
      'AppData/Roaming/Claude/claude_desktop_config.json',
    ],
    codex: ['.codex/config.toml', '.codex/config.toml', '.codex/config.toml'],
    'gemini-cli': ['.gemini/settings.json', '.gemini/settings.json', '.gemini/settings.json'],
    opencode: [
      '.config/opencode/opencode.jsonc',
      '.config/opencode/opencode.jsonc',
      '.config/opencode/opencode.jsonc',
    ],
    cursor: ['.cursor/mcp.json', '.cursor/mcp.json', '.cursor/mcp.json'],
    vscode: [
      '.config/Code/User/mcp.json',
      'Library/Application Support/Code/User/mcp.json',
      'AppData/Roaming/Code/User/mcp.json',
    ],
    'copilot-cli': [
      '.copilot/mcp-config.json',
      '.copilot/mcp-config.json',
      '.copilot/mcp-config.json',
    ],
    windsurf: [
      '.codeium/windsurf/mcp_config.json',
      '.codeium/windsurf/mcp_config.json',
      '.codeium/windsurf/mcp_config.json',
    ],
    zed: [
      '.config/zed/settings.json',
      '.config/zed/settings.json',
      'AppData/Roaming/Zed/settings.json',
    ],
    goose: [
      '.config/goose/config.yaml',
      '.config/goose/config.yaml',
      'AppData/Roaming/Block/goose/config/config.yaml',
    ],
  };

  test('every client has its path on every platform', () => {
    assert.deepEqual(agentClients.map(({ id }) => id).toSorted(), Object.keys(expected).toSorted());
    const homes = { linux: '/home/ada', darwin: '/Users/ada', win32: 'C:\\Users\\ada' };
    for (const client of agentClients)
      for (const [at, platform] of (['linux', 'darwin', 'win32'] as const).entries()) {
        const place = { platform, userHome: homes[platform], env: {}, cwd: '/' };
        const path = `${homes[platform]}/${expected[client.id]![at]}`;
        const own = platform === 'win32' ? path.replaceAll('/', '\\') : path;
        assert.equal(client.userFiles(place)[0], own, `${client.id} on ${platform}`);
      }
  });

  test('variables that move a folder are respected', () => {
    const env = { XDG_CONFIG_HOME: '/x', CODEX_HOME: '/c', CLAUDE_CONFIG_DIR: '/cl' };
    const place = { platform: 'linux', userHome: '/home/ada', env, cwd: '/' };
    const fileOf = (id: string) => clientOf(id).userFiles(place)[0];
    assert.equal(fileOf('codex'), '/c/config.toml');
    assert.equal(fileOf('claude-code'), '/cl/.claude.json');
    assert.equal(fileOf('goose'), '/x/goose/config.yaml');
    assert.equal(fileOf('vscode'), '/x/Code/User/mcp.json');
    const windows = { platform: 'win32', userHome: 'C:\\a', env: { APPDATA: 'D:\\r' }, cwd: '/' };
    assert.equal(
      clientOf('zed').userFiles(windows)[0],
      'D:\\r\\Zed\\settings.json',
      'a home on another disk',
    );
  });
});

test('every client gets the entry in its own form, and what was written is read back', () => {
  const shapes = Object.fromEntries(
    agentClients.map((client) => [client.id, [client.entry(stdio), client.entry(http)]]),
  );
  const headers = { Authorization: 'Bearer errand_secret' };
  const { url } = http as { url: string };
  const plain = { command: '/node', args: ['/errand.js', 'mcp'] };
  assert.deepEqual(shapes, {
    'claude-code': [
      { type: 'stdio', ...plain },
      { type: 'http', url, headers },
    ],
    'claude-desktop': [plain, { url, headers }],
    codex: [plain, { url, http_headers: headers }],
    'gemini-cli': [plain, { httpUrl: url, headers }],
    opencode: [
      { type: 'local', command: ['/node', '/errand.js', 'mcp'] },
      { type: 'remote', url, headers },
    ],
    cursor: [plain, { url, headers }],
    vscode: [
      { type: 'stdio', ...plain },
      { type: 'http', url, headers },
    ],
    'copilot-cli': [
      { type: 'local', ...plain, tools: ['*'] },
      { type: 'http', url, headers, tools: ['*'] },
    ],
    windsurf: [plain, { serverUrl: url, headers }],
    zed: [plain, { url, headers }],
    goose: [
      {
        enabled: true,
        name: 'errand',
        description: 'Background jobs',
        timeout: 300,
        type: 'stdio',
        cmd: '/node',
        args: ['/errand.js', 'mcp'],
      },
      {
        enabled: true,
        name: 'errand',
        description: 'Background jobs',
        timeout: 300,
        type: 'streamable_http',
        uri: url,
        headers,
      },
    ],
  });
  for (const client of agentClients) {
    assert.deepEqual(connectionOf(client.entry(stdio)), stdio, client.id);
    assert.deepEqual(connectionOf(client.entry(http)), http, client.id);
  }
});

test('clients are found by their files or by their program', (t) => {
  const { place, put } = world(t);
  assert.deepEqual(findClients(place), []);
  put('.cursor/mcp.json', '{}');
  const program = put('bin/codex', '#!/bin/sh\n');
  chmodSync(program, 0o755);
  const withPath = { ...place, env: { PATH: dirname(program) } };
  assert.deepEqual(
    findClients(withPath).map(({ id }) => id),
    ['codex', 'cursor'],
  );
  assert.deepEqual(
    findClients(place, ['Claude Desktop', 'claude']).map(({ id }) => id),
    ['claude-desktop', 'claude-code'],
  );
  assert.throws(() => findClients(place, ['emacs']), /Unknown client: emacs/);
});

describe('files that are refused and left alone', () => {
  const refused = async (
    t: TestContext,
    prepare: (w: World, file: string) => void,
    message: RegExp,
  ) => {
    const w = world(t);
    const file = join(w.place.userHome, '.cursor', 'mcp.json');
    mkdirSync(dirname(file));
    prepare(w, file);
    const before = snapshot(dirname(file));
    await assert.rejects(applyAdd(w, user('cursor'), stdio), (error: Error) => {
      assert.match(error.message, message);
      assert.ok((error as { hint?: string }).hint, 'the error says what to do');
      return true;
    });
    assert.deepEqual(snapshot(dirname(file)), before);
  };
  const snapshot = (folder: string) =>
    readdirSync(folder).map((name) => {
      const path = join(folder, name);
      return [name, lstatSync(path).isFile() ? readFileSync(path).toString('base64') : ''];
    });
  const cases: [string, (file: string) => void, RegExp][] = [
    [
      'text that is not JSON',
      (file) => writeFileSync(file, '{"mcpServers": {'),
      /cannot be parsed: .* in line 1/,
    ],
    ['an array', (file) => writeFileSync(file, '[]'), /does not contain an object/],
    [
      'servers that are not an object',
      (file) => writeFileSync(file, '{"mcpServers": 3}'),
      /cannot be set by a small edit/,
    ],
    [
      'invalid UTF-8',
      (file) => writeFileSync(file, Buffer.from([0x7b, 0xff, 0x7d])),
      /not valid UTF-8/,
    ],
    ['a read-only file', (file) => writeFileSync(file, '{}', { mode: 0o444 }), /read-only/],
    ['a folder', (file) => mkdirSync(file), /not a regular file/],
    ['a symbolic link to itself', (file) => symlinkSync(file, file), /leads back to itself/],
    ['a symbolic link to nothing', (file) => symlinkSync(`${file}.none`, file), /does not exist/],
  ];
  for (const [what, prepare, message] of cases)
    test(what, (t) => refused(t, (_world, file) => prepare(file), message));

  test('an inline table of TOML and a broken YAML file', async (t) => {
    const w = world(t);
    const toml = w.put('.codex/config.toml', 'mcp_servers = { a = { command = "x" } }\n');
    const yaml = w.put('.config/goose/config.yaml', 'a: [\n');
    await assert.rejects(applyAdd(w, user('codex'), stdio), /cannot be set by a small edit/);
    await assert.rejects(applyAdd(w, user('goose'), stdio), /cannot be parsed/);
    assert.equal(readFileSync(toml, 'utf8'), 'mcp_servers = { a = { command = "x" } }\n');
    assert.equal(readFileSync(yaml, 'utf8'), 'a: [\n');
  });

  test('a strict client refuses comments, because it cannot read them either', async (t) => {
    const w = world(t);
    w.put('.config/Claude/claude_desktop_config.json', '{} // mine\n');
    await assert.rejects(applyAdd(w, user('claude-desktop'), stdio), /cannot be parsed/);
    await assert.rejects(applyAdd(w, user('claude-desktop'), http), /only to local commands/);
  });
});

test('a symbolic link stays a link, even to another disk', async (t) => {
  const w = world(t);
  const shm = '/dev/shm';
  const folder = existsSync(shm) ? mkdtempSync(join(shm, 'errand-t-')) : tempFolder(t);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const real = join(folder, 'dotfiles.json');
  writeFileSync(real, '{}\n', { mode: 0o640 });
  const link = join(w.place.userHome, '.cursor', 'mcp.json');
  mkdirSync(dirname(link));
  symlinkSync(real, link);
  await applyAdd(w, user('cursor'), stdio);
  assert.ok(lstatSync(link).isSymbolicLink());
  assert.match(readFileSync(real, 'utf8'), /errand\.js/);
  assert.equal(statSync(real).mode & 0o777, 0o640);
  await applyRemove(w, user('cursor'));
  assert.equal(readFileSync(real, 'utf8'), '{}\n');
});

test('a file that another program changes in between is read again, and never overwritten', async (t) => {
  const w = world(t);
  const file = w.put('.cursor/mcp.json', '{}');
  const stale = readConfigFile(file);
  writeFileSync(file, '{"theirs": 1}');
  assert.throws(() =>
    replaceConfigFile(stale, Buffer.from('{"ours": 1}'), { now: 0, backup: true }),
  );
  assert.equal(readFileSync(file, 'utf8'), '{"theirs": 1}');
  // Another Errand is writing: its temporary file exists. A program that always changes the file is reported.
  writeFileSync(`${file}.errand-new`, '');
  const clock = new ManualClock(Date.now());
  const busy = applyAdd({ ...w, clock }, user('cursor'), stdio);
  const rejected = assert.rejects(busy, /Another program keeps changing/);
  for (let step = 0; step < 5; step++) {
    await clock.advance(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await rejected;
  assert.equal(readFileSync(file, 'utf8'), '{"theirs": 1}');
  // A process that was killed left it behind: after a while it is replaced.
  await clock.advance(60_000);
  await applyAdd({ ...w, clock }, user('cursor'), stdio);
  assert.match(readFileSync(file, 'utf8'), /theirs[^]*errand\.js/);
  assert.ok(!existsSync(`${file}.errand-new`));
});

test('another installation is replaced, and the user’s own fields stay', async (t) => {
  const w = world(t);
  const own = {
    command: '/old/node',
    args: ['/old/errand.js', 'mcp'],
    env: { A: '1' },
    timeout: 9,
  };
  const file = w.put('.cursor/mcp.json', JSON.stringify({ mcpServers: { errand: own, x: {} } }));
  const { change, backup } = await applyAdd(w, user('cursor'), stdio);
  assert.equal(change.state, 'update');
  assert.deepEqual(change.existing, { command: '/old/node', args: ['/old/errand.js', 'mcp'] });
  assert.match(readFileSync(backup!, 'utf8'), /\/old\/node/);
  const { mcpServers } = JSON.parse(readFileSync(file, 'utf8')) as { mcpServers: object };
  assert.deepEqual(mcpServers, {
    errand: { command: '/node', args: ['/errand.js', 'mcp'], env: { A: '1' }, timeout: 9 },
    x: {},
  });
});

test('the form that an opencode file has is kept, and an existing opencode.json is used', async (t) => {
  const w = world(t);
  const file = w.put('.config/opencode/opencode.json', '{"mcp": {"servers": {}}}');
  await applyAdd(w, user('opencode'), stdio);
  const { mcp } = JSON.parse(readFileSync(file, 'utf8')) as { mcp: { servers: object } };
  assert.deepEqual(Object.keys(mcp.servers), ['errand']);
});

test('an entry that another scope shadows is reported', async (t) => {
  const w = world(t);
  const local = { [w.place.cwd]: { mcpServers: { errand: { command: 'x' } } } };
  w.put('.claude.json', JSON.stringify({ projects: local }));
  const planned = planAdd(w, user('claude-code'), stdio);
  assert.match(planned.shadowedBy!, /local scope of this folder/);
  await applyAdd(w, project('cursor'), { ...stdio, args: ['other'] });
  assert.equal(planAdd(w, user('cursor'), stdio).shadowedBy, join(w.place.cwd, '.cursor/mcp.json'));
  assert.equal(planAdd(w, user('codex'), stdio).shadowedBy, undefined);
});

test('an entry of the project is reported in its subfolders too', async (t) => {
  const w = world(t);
  const { cwd } = w.place;
  mkdirSync(join(cwd, '.git'));
  mkdirSync(join(cwd, 'src', 'deep'), { recursive: true });
  await applyAdd(w, project('cursor'), stdio);
  const below = { ...w, place: { ...w.place, cwd: join(cwd, 'src', 'deep') } };
  assert.equal(planAdd(below, user('cursor'), stdio).shadowedBy, join(cwd, '.cursor/mcp.json'));
  const local = { [cwd]: { mcpServers: { errand: { command: 'x' } } } };
  w.put('.claude.json', JSON.stringify({ projects: local }));
  assert.match(planAdd(below, user('claude-code'), stdio).shadowedBy!, /local scope/);
});

test('an entry that the user switched off stays off, and is reported', async (t) => {
  const w = world(t);
  const off = { ...stdio, disabled: true };
  w.put('.cursor/mcp.json', JSON.stringify({ mcpServers: { errand: off } }));
  w.put('.codex/config.toml', '[mcp_servers.errand]\ncommand = "/old"\nenabled = false\n');
  const same = await applyAdd(w, user('cursor'), stdio);
  assert.deepEqual([same.change.state, same.change.isDisabled], ['unchanged', true]);
  const updated = await applyAdd(w, user('codex'), stdio);
  assert.deepEqual([updated.change.state, updated.change.isDisabled], ['update', true]);
  assert.equal((await applyAdd(w, user('windsurf'), stdio)).change.isDisabled, undefined);
});

describe('the client’s own command', () => {
  /** A `claude` that reports success whatever it does. */
  function fakeClaude(w: World, script: string): World {
    const program = w.put(
      'bin/claude',
      `#!/bin/sh\necho "$@" >> "$HOME/calls"\n${script}\nexit 0\n`,
    );
    chmodSync(program, 0o755);
    const env = {
      PATH: `${dirname(program)}:/usr/bin:/bin`,
      HOME: w.place.userHome,
      ERRAND_KEY: 'secret',
    };
    return { ...w, place: { ...w.place, env } };
  }
  const calls = (w: World) => readFileSync(join(w.place.userHome, 'calls'), 'utf8');

  test('is used where one exists, and verified by reading the file', async (t) => {
    const content = {
      mcpServers: {
        a: {},
        errand: { type: 'stdio', command: '/node', args: ['/errand.js', 'mcp'], env: {} },
      },
    };
    const w = fakeClaude(
      world(t),
      `printf '%s' '${JSON.stringify(content)}' > "$HOME/.claude.json"; env | grep ERRAND_ >> "$HOME/calls"`,
    );
    const file = w.put('.claude.json', '{"mcpServers": {"a": {}}}');
    const applied = await applyAdd(w, user('claude-code'), stdio);
    assert.deepEqual(applied.notes, []);
    assert.equal(
      calls(w),
      'mcp add --scope user errand -- /node /errand.js mcp\n',
      'and no variable of ours',
    );
    assert.equal(readFileSync(applied.backup!, 'utf8'), '{"mcpServers": {"a": {}}}');
    assert.equal(readFileSync(file, 'utf8'), JSON.stringify(content));
    assert.equal((await applyAdd(w, user('claude-code'), stdio)).change.state, 'unchanged');
  });

  test('the file is edited if the command wrote nothing, or damaged other entries', async (t) => {
    for (const script of [
      ':',
      ...['{"mcpServers": {}}', '{', ''].map(
        (text) => `printf '%s' '${text}' > "$HOME/.claude.json"`,
      ),
    ]) {
      const w = fakeClaude(world(t), script);
      const file = w.put('.claude.json', '{"mcpServers": {"a": {}}, "n": 1}');
      const { notes } = await applyAdd(w, user('claude-code'), stdio);
      assert.match(notes[0]!, /`claude mcp add` did not add the entry/);
      const content = JSON.parse(readFileSync(file, 'utf8')) as { mcpServers: object; n: number };
      assert.deepEqual([Object.keys(content.mcpServers), content.n], [['a', 'errand'], 1]);
    }
  });

  test('is never used for a connection with a key', async (t) => {
    const w = fakeClaude(world(t), ':');
    const file = w.put('.claude.json', '{}');
    await applyAdd(w, user('claude-code'), http);
    assert.match(readFileSync(file, 'utf8'), /Bearer errand_secret/);
    assert.ok(!existsSync(join(w.place.userHome, 'calls')), 'the key is on no command line');
  });
});

test('a diff shows the changed lines with context', () => {
  assert.equal(
    diffText('a\nb\nc\n', 'a\nb\nx\nc\n', 'f'),
    '--- f\n+++ f\n@@ -1,3 +1,4 @@\n a\n b\n+x\n c\n',
  );
  assert.equal(diffText('', 'x\n', 'f'), '--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\n');
  assert.equal(diffText('same', 'same', 'f'), '');
});
