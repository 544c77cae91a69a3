// What `errand serve` prints can be copied as it stands, also where the home has another place or a blank in its name.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { clientConfigs } from '../../../src/faces/cli/greeting.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { bin, serverEnv } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

test('clients are told the home that is served, and a usual one is left out', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'my home');
  const named = await greeting(t, ['--home', home], { XDG_DATA_HOME: folder });
  assert.match(named, new RegExp(`claude mcp add errand -- \\S+ ${bin} mcp --home '${home}'`));
  assert.match(named, new RegExp(`"args":\\["${bin}","mcp","--home","${home}"\\]`));
  const line = /^Try: (.*)$/m.exec(named)![1]!;
  const env = serverEnv(join(folder, 'other'));
  const { stdout } = await promisify(execFile)('sh', ['-c', line.replace(bin, `node ${bin}`)], {
    env: { ...env, PATH: `${join(process.execPath, '..')}:${process.env.PATH}` },
  });
  assert.match(stdout, /hello/);
  const usual = await greeting(t, [], { XDG_DATA_HOME: folder, ERRAND_HOME: '' });
  assert.match(usual, new RegExp(`claude mcp add errand -- \\S+ ${bin} mcp$`, 'm'));
  assert.match(usual, new RegExp(`^Try: ${bin} run`, 'm'));
});

test('paths with blanks and quotes are one word for a shell', () => {
  const text = clientConfigs(['/a b/node', "/it's/errand.js", 'mcp']);
  assert.match(text, /claude mcp add errand -- '\/a b\/node' '\/it'\\''s\/errand\.js' mcp\n/);
});

async function greeting(t: TestContext, args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0', ...args], {
    env: serverEnv(join(tempFolder(t), 'none'), env),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
  return until('it greets', () => (text.includes('Stop with') ? text : ''));
}
