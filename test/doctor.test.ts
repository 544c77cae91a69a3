// `errand doctor` on all sorts of machines: real files below a temporary root.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { examine } from '../src/doctor/doctor.ts';
import { thisMachine, type Finding, type Machine } from '../src/runtime/machine.ts';
import { version } from '../src/version.ts';
import { smallDisk } from './helpers/disk.ts';
import { tempFolder } from './helpers/folder.ts';
import { cli, startServer } from './helpers/server.ts';

interface MachineOptions {
  /** Files of the machine: path → text. */
  files?: Record<string, string>;
  /** Files of the home. */
  home?: Record<string, string>;
  machine?: Partial<Machine>;
  env?: Record<string, string>;
}

async function findings(t: TestContext, options: MachineOptions = {}): Promise<Finding[]> {
  const root = tempFolder(t);
  const put = (folder: string, files: Record<string, string>) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o700 });
      writeFileSync(join(folder, path), text, { mode: 0o600 });
    }
  };
  put(root, options.files ?? {});
  const home = join(root, 'errand-home');
  if (options.home) put(home, options.home);
  const env = { HOME: '/home/ada', PATH: '/usr/bin', ERRAND_HOME: home, ...options.env };
  const machine = {
    ...thisMachine(env, root),
    platform: 'linux',
    userName: 'ada',
    isRoot: false,
    ...options.machine,
  };
  return examine(home, env, machine);
}

const one = (found: Finding[], name: string): Finding => {
  const finding = found.find((each) => each.name === name);
  assert.ok(finding, `${name} is checked`);
  return finding;
};

test('a healthy machine passes every check', async (t) => {
  const found = await findings(t, { home: { 'owner.key': 'errand_x\n' } });
  for (const name of [
    'Node',
    'system',
    'home',
    'permissions',
    'disk',
    'shell',
    'settings',
    'server',
  ])
    assert.notEqual(one(found, name).state, 'problem', name);
  for (const name of ['terminal', 'browser', 'clients', 'survival']) one(found, name);
  assert.equal(one(found, 'survival').text, 'jobs survive the client and the server');
});

test('every problem has a hint', async (t) => {
  const found = await findings(t, {
    home: { 'config.json': '{"server": {"prot": 1}}', 'server.log': 'errand: it broke\n' },
    env: { SHELL: '/no/such/shell' },
  });
  for (const name of ['settings', 'shell']) {
    assert.equal(one(found, name).state, 'problem');
    assert.ok(one(found, name).hint, name);
  }
  assert.match(one(found, 'settings').text, /prot/);
  assert.match(one(found, 'log').text, /it broke/);
});

test('home files that others can read are listed with the fix', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'owner.key'), 'errand_x\n', { mode: 0o644 });
  const env = { HOME: folder, ERRAND_HOME: home };
  const open = one(await examine(home, env), 'permissions');
  assert.deepEqual([open.state, open.hint], ['problem', `chmod 600 ${join(home, 'owner.key')}`]);
  chmodSync(join(home, 'owner.key'), 0o600);
  writeFileSync(join(home, 'config.json'), '{}', { mode: 0o644 });
  assert.equal(
    one(await examine(home, env), 'permissions').state,
    'ok',
    'an editor creates files with this mode',
  );
  chmodSync(home, 0o755);
  assert.match(one(await examine(home, env), 'permissions').text, /config\.json/);
  assert.equal(one(await examine(home, env), 'home').hint, `chmod 700 ${home}`);
});

test('low disk space is a problem; the server log is searched for warnings', async (t) => {
  const root = smallDisk(t, '1m');
  if (root === undefined) return;
  const home = join(root, 'home');
  mkdirSync(home, { mode: 0o700 });
  const env = { HOME: root, ERRAND_HOME: home };
  const disk = one(await examine(home, env), 'disk');
  assert.deepEqual([disk.state, disk.text], ['problem', '0.0 GiB free']);
  assert.match(disk.hint!, /Free some space/);
  const log = join(home, 'server.log');
  writeFileSync(log, '{"level":"info","message":"serving"}\n', { mode: 0o600 });
  assert.equal(one(await examine(home, env), 'log').text, `${log}: no warnings`);
  writeFileSync(log, '{"level":"warn","message":"odd"}\n', { mode: 0o600 });
  assert.match(one(await examine(home, env), 'log').text, /last warnings:[^]*odd/);
});

test('a home that is not writable is a problem with a hint', async (t) => {
  const isRoot = process.getuid?.() === 0;
  const root = isRoot ? smallDisk(t, '1m') : tempFolder(t);
  if (root === undefined) return;
  const home = join(root, 'home');
  mkdirSync(home, { mode: 0o500 });
  // Root can write everywhere except on a read-only disk.
  if (isRoot) execFileSync('mount', ['-o', 'remount,ro', root]);
  const found = one(await examine(home, { HOME: '/', ERRAND_HOME: home }), 'home');
  assert.deepEqual([found.state, found.hint], ['problem', 'Choose another with ERRAND_HOME.']);
});

test('a running server is shown with version and process; a stopped one is a note', async (t) => {
  const server = await startServer(t);
  const printed = await server.cli('doctor');
  assert.match(printed.stdout, /^✓ Node: 24\./m);
  const line = new RegExp(`^✓ server: running, version ${version}, process ${server.pid}$`, 'm');
  assert.match(printed.stdout, line);
  assert.equal(printed.code, /^✗/m.test(printed.stdout) ? 1 : 0);
  await server.stop();
  const off = await server.cli('doctor');
  assert.match(off.stdout, /^· server: not running\n {4}Commands and MCP clients start it/m);
  const shell = await cli(server.home, ['doctor'], { SHELL: '/no/such/shell' });
  assert.equal(shell.code, 1, 'scripts see a problem in the exit code');
  assert.match(shell.stdout, /^✗ shell: \/no\/such\/shell does not exist\n {4}Set SHELL/m);
});

test('macOS lists its gaps, and Windows is not supported yet', async (t) => {
  const mac = one(await findings(t, { machine: { platform: 'darwin' } }), 'system');
  assert.equal(mac.state, 'note');
  for (const gap of [
    /survives a cancel/,
    /waiting for input/,
    /ports/,
    /ring/,
    /node-pty/,
    /second/,
  ])
    assert.match(mac.hint!, gap);
  const windows = one(await findings(t, { machine: { platform: 'win32' } }), 'system');
  assert.deepEqual([windows.state, /WSL/.test(windows.hint!)], ['problem', true]);
});

test('clients without an entry, with a broken entry and with a file that cannot be read', async (t) => {
  const found = await findings(t, {
    files: {
      'home/ada/.claude.json': '{"mcpServers": {"errand": {}}}',
      'home/ada/.cursor/mcp.json': '{}',
      'home/ada/.codex/config.toml': '[',
    },
  });
  const { state, text, hint } = one(found, 'clients');
  assert.deepEqual([state, text], ['note', 'not connected: Cursor']);
  assert.match(hint!, /errand add/);
  assert.match(one(found, 'Claude Code').text, /neither a command nor a URL/);
  assert.match(one(found, 'Codex').text, /cannot be parsed/);
  assert.equal(one(await findings(t), 'clients').hint, 'Install one, then run `errand add`.');
});

describe('the browser', () => {
  const chromium = { 'usr/bin/chromium': '' };
  const browser = async (t: TestContext, options: MachineOptions) =>
    one(await findings(t, options), 'browser');

  test('the sandbox works, or the report explains why not and how to fix it', async (t) => {
    assert.match((await browser(t, { files: chromium })).text, /in its sandbox/);
    const cases: [MachineOptions, RegExp][] = [
      [{ files: chromium, machine: { isRoot: true } }, /as root/],
      [
        { files: { ...chromium, 'proc/sys/kernel/unprivileged_userns_clone': '0\n' } },
        /user namespaces disabled/,
      ],
      [
        { files: { ...chromium, 'proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' } },
        /AppArmor/,
      ],
    ];
    for (const [options, text] of cases) {
      const found = await browser(t, options);
      assert.equal(found.state, 'note');
      assert.match(found.text, text);
      assert.match(found.hint!, /web\.browser\.sandbox/);
    }
  });

  test('no browser, or one whose sandbox is turned off', async (t) => {
    assert.match((await browser(t, {})).hint!, /web\.browser\.path/);
    const off = await browser(t, {
      files: chromium,
      home: { 'config.json': '{"web": {"browser": {"sandbox": false}}}' },
    });
    assert.match(off.text, /without its sandbox/);
    assert.match(off.hint!, /only pages you trust/);
  });
});

describe('whether jobs survive the client', () => {
  const survival = async (t: TestContext, options: MachineOptions) =>
    (await findings(t, options)).filter(({ name }) => name === 'survival');

  test('a container', async (t) => {
    const signs: MachineOptions[] = [
      { files: { '.dockerenv': '' } },
      { files: { 'run/.containerenv': '' } },
      { env: { container: 'podman' } },
      { files: { 'proc/1/cgroup': '0::/kubepods.slice/pod1/abc\n' } },
    ];
    for (const options of signs) {
      const [found] = await survival(t, options);
      assert.match(found!.text, /end with the container/);
      assert.match(found!.hint!, /volume/);
    }
  });

  test('a cgroup that systemd kills: of the client, or of the running server', async (t) => {
    const service = '0::/system.slice/code-server.service\n';
    const [client] = await survival(t, { files: { 'proc/self/cgroup': service } });
    assert.match(client!.text, /would be part of code-server\.service/);
    assert.match(client!.hint!, /errand service install/);
    const scope = '0::/user.slice/user-1000.slice/session-2.scope\n';
    const [server] = await survival(t, {
      files: { 'proc/self/cgroup': scope, 'proc/77/cgroup': service },
      home: { 'server.pid': '77\n' },
    });
    assert.match(server!.text, /the server is part of code-server\.service/);
    const [ours] = await survival(t, {
      files: {
        'proc/77/cgroup': '0::/user.slice/user@1000.service/app.slice/errand.service\n',
        'proc/self/cgroup': service,
      },
      home: { 'server.pid': '77\n' },
    });
    assert.equal(ours!.state, 'ok');
    assert.equal((await survival(t, { files: { 'proc/self/cgroup': scope } }))[0]!.state, 'ok');
  });

  test('the last KillUserProcesses setting of logind wins; lingering keeps the service', async (t) => {
    const yes = { 'etc/systemd/logind.conf': '[Login]\nKillUserProcesses=yes\n' };
    const [kills] = await survival(t, { files: yes });
    assert.equal(kills!.state, 'problem');
    assert.match(kills!.hint!, /enable-linger/);
    const [dropIn] = await survival(t, {
      files: { 'etc/systemd/logind.conf.d/10-kill.conf': 'KillUserProcesses=true\n' },
    });
    assert.equal(dropIn!.state, 'problem');
    const [overruled] = await survival(t, {
      files: { ...yes, 'etc/systemd/logind.conf.d/90-keep.conf': 'KillUserProcesses=no\n' },
    });
    assert.equal(overruled!.state, 'ok');
    const comment = { 'etc/systemd/logind.conf': '#KillUserProcesses=yes\n' };
    assert.equal((await survival(t, { files: comment }))[0]!.state, 'ok');
    const unit = { 'home/ada/.config/systemd/user/errand.service': '' };
    const [logout] = await survival(t, { files: unit });
    assert.match(logout!.text, /when you log out/);
    const lingering = { ...yes, ...unit, 'var/lib/systemd/linger/ada': '' };
    assert.equal((await survival(t, { files: lingering }))[0]!.state, 'ok');
  });
});
