// Starts an Errand server for one example. It has a temporary home, so it never touches your own jobs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const errand = join(import.meta.dirname, '../bin/errand.js');

/** `config` is the content of config.json. Returns the server's URL, its owner's key, and `stop`. */
export async function startServer(config = {}) {
  const home = await mkdtemp(join(tmpdir(), 'errand-example-'));
  await writeFile(join(home, 'config.json'), JSON.stringify(config));
  const args = [errand, 'serve', '--home', home, '--port', '0', '--json'];
  // ERRAND_STORE would replace the database in the temporary home.
  const { ERRAND_STORE: _store, ...env } = process.env;
  const server = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...env, ERRAND_LOG: 'error' },
  });
  const exited = once(server, 'exit');
  const stop = async () => {
    server.kill();
    await exited;
    await rm(home, { recursive: true, maxRetries: 5 });
  };
  // With --json the server prints one line of JSON as soon as it accepts connections.
  const lines = createInterface(server.stdout);
  const [line] = await Promise.race([once(lines, 'line'), exited]);
  if (typeof line !== 'string') {
    await stop();
    throw new Error('The server did not start.');
  }
  const { url, key } = JSON.parse(line);
  return { url, key, stop };
}
