// `errand service`: writes, starts and removes the systemd unit and the launchd plist.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { serviceUnit } from '../../../src/interfaces/cli/commands/service.ts';
import type { Program } from '../../../src/interfaces/cli/program.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { bin, cli } from '../../helpers/server.ts';

const createProgram = (home: string, binPath: string) =>
  ({ binPath, env: {}, place: () => ({ home, socketPath: '' }) }) as unknown as Program;

test('install writes and starts the unit, remove stops and deletes it', async (t) => {
  if (process.platform !== 'linux') return t.skip('systemd requires Linux');
  const folder = tempFolder(t);
  const tools = join(folder, 'bin');
  mkdirSync(tools);
  const calls = join(folder, 'said');
  writeFileSync(join(tools, 'systemctl'), `#!/bin/sh\necho "$@" >> ${calls}\n`, { mode: 0o755 });
  const home = join(folder, 'home');
  const env = { PATH: `${tools}:${process.env.PATH}`, XDG_CONFIG_HOME: join(folder, 'config') };
  const service = (verb: string) => cli(home, ['service', verb], env);
  const path = join(folder, 'config/systemd/user/errand.service');
  const installed = await service('install');
  assert.equal(installed.code, 0, installed.stderr);
  assert.match(installed.stdout, new RegExp(path));
  const unit = readFileSync(path, 'utf8');
  assert.match(unit, new RegExp(`^ExecStart=${process.execPath} ${bin} serve$`, 'm'));
  assert.match(unit, new RegExp(`^Environment=ERRAND_HOME=${home}$`, 'm'));
  assert.match(unit, /^KillMode=process$/m);
  assert.match(unit, /^WantedBy=default\.target$/m);
  assert.equal((await service('print')).stdout, unit);
  assert.equal((await service('remove')).code, 0);
  assert.equal(existsSync(path), false);
  assert.deepEqual(readFileSync(calls, 'utf8').trim().split('\n'), [
    '--user daemon-reload',
    '--user enable --now errand.service',
    '--user disable --now errand.service',
  ]);
});

test('a failed systemctl call is reported with instructions for manual installation', async (t) => {
  if (process.platform !== 'linux') return t.skip('systemd requires Linux');
  const folder = tempFolder(t);
  const tools = join(folder, 'bin');
  mkdirSync(tools);
  writeFileSync(join(tools, 'systemctl'), '#!/bin/sh\necho no bus >&2; exit 1\n', { mode: 0o755 });
  const env = { PATH: `${tools}:${process.env.PATH}`, XDG_CONFIG_HOME: join(folder, 'config') };
  const answer = await cli(join(folder, 'home'), ['service', 'install'], env);
  assert.equal(answer.code, 7);
  assert.match(answer.stderr, /systemctl --user daemon-reload failed[^]*errand service print/);
  assert.equal(existsSync(join(folder, 'config/systemd/user/errand.service')), false);
});

test('unusual paths are quoted, and launchd does not kill jobs with the server', () => {
  const program = createProgram('/home/a b/50%', '/opt/my "apps"/errand.js');
  const unit = serviceUnit(program, 'linux').text;
  assert.match(unit, /^ExecStart=\S+ "\/opt\/my \\"apps\\"\/errand\.js" serve$/m);
  assert.match(unit, /^Environment="ERRAND_HOME=\/home\/a b\/50%%"$/m);
  const mac = serviceUnit(createProgram('/Users/a&b/home', '/opt/errand.js'), 'darwin');
  assert.match(mac.path, /Library\/LaunchAgents\/dev\.errand\.server\.plist$/);
  assert.match(mac.text, /<string>\/opt\/errand\.js<\/string><string>serve<\/string>/);
  assert.match(mac.text, /<key>ERRAND_HOME<\/key><string>\/Users\/a&amp;b\/home<\/string>/);
  assert.match(mac.text, /<key>AbandonProcessGroup<\/key><true\/>/);
  assert.deepEqual(mac.start, [['launchctl', 'load', '-w', mac.path]]);
  assert.throws(() => serviceUnit(program, 'win32'), { code: 'unsupported' });
});
