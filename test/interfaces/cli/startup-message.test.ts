// The commands that `errand serve` prints can be copied unchanged, even for a home with a space in its path.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { tempFolder } from '../../helpers/folder.ts';
import { bin, serverEnv } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

test('printed commands name the home unless it is the default', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'my home');
  const namedMessage = await startupMessage(t, ['--home', home], { XDG_DATA_HOME: folder });
  assert.match(
    namedMessage,
    new RegExp(`^Connect your agents: +${bin} add --home '${home}'$`, 'm'),
  );
  const line = /^Try it: +(.*)$/m.exec(namedMessage)![1]!;
  const env = serverEnv(join(folder, 'other'));
  const { stdout } = await promisify(execFile)('sh', ['-c', line.replace(bin, `node ${bin}`)], {
    env: { ...env, PATH: `${join(process.execPath, '..')}:${process.env.PATH}` },
  });
  assert.match(stdout, /hello/);
  const defaultMessage = await startupMessage(t, [], { XDG_DATA_HOME: folder, ERRAND_HOME: '' });
  assert.match(defaultMessage, new RegExp(`^Connect your agents: +${bin} add$`, 'm'));
  assert.match(defaultMessage, new RegExp(`^Try it: +${bin} run`, 'm'));
});

async function startupMessage(t: TestContext, args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0', ...args], {
    env: serverEnv(join(tempFolder(t), 'none'), env),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
  return until('the startup message is printed', () => (text.includes('Stop with') ? text : ''));
}
