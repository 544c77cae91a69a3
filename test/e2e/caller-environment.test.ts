// Commands run with the environment of their caller, through the real bridge and command line, across restarts, retries and
// reruns. The environment never appears in the database, logs, views or backups.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { textOf } from '../interfaces/mcp/clients.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { bin, cli, onPostgres, serverEnv, startServer } from '../helpers/server.ts';

/** Variables of a typical developer shell. Every value is unique, so that leaks can be found. */
const shell = {
  NODE_ENV: 'value-of-node-env',
  PYTHONPATH: '/value/of/pythonpath',
  DATABASE_URL: 'postgres://ann@value-of-database/db',
  KUBECONFIG: '/value/of/kubeconfig',
  AWS_PROFILE: 'value-of-aws-profile',
  HTTPS_PROXY: 'http://value-of-proxy.example:3128',
  NODE_OPTIONS: '--stack-trace-limit=77',
  SSL_CERT_FILE: '/value/of/cert-file',
  CC: 'value-of-cc',
  MAKEFLAGS: '-j77',
  GIT_SSH_COMMAND: 'ssh -i value-of-git-ssh',
  LC_TIME: 'C.UTF-8',
};
const secret = { GITHUB_TOKEN: 'hidden-value-1', OPENAI_API_KEY: 'hidden-value-2' };
const names = [...Object.keys(shell), ...Object.keys(secret)];

const printed = `node -p "JSON.stringify(Object.fromEntries(${JSON.stringify(names).replaceAll('"', "'")}.map((n) => [n, process.env[n]])))"`;
const everything = { ...shell, ...secret };

interface Shown {
  id: string;
  status: string;
  withheld?: string[];
}

async function connectBridge(t: TestContext, home: string, env: Record<string, string>) {
  const own = Object.entries({ ...serverEnv(home), ...env });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [bin, 'mcp'],
    env: Object.fromEntries(
      own.filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
    stderr: 'ignore',
  });
  const client = new Client({ name: 'test', version: '1' });
  t.after(() => client.close());
  await client.connect(transport);
  return (name: string, input: object) => client.callTool({ name, arguments: { ...input } });
}

/** All files of the home except the stored environments. */
function contents(home: string): { path: string; bytes: Buffer }[] {
  return readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.startsWith(join(home, 'environments')))
    .map((path) => ({ path, bytes: readFileSync(path) }));
}

test('the command line passes its environment without secrets and lists withheld names', async (t) => {
  const server = await startServer(t);
  const run = await cli(server.home, ['run', '--name', 'env', '--shell', printed], everything);
  assert.deepEqual(JSON.parse(run.stdout), shell);
  const shown = (await cli(server.home, ['show', '--json', 'env'])).json<Shown>();
  for (const name of Object.keys(secret)) assert.ok(shown.withheld?.includes(name), name);
  for (const name of Object.keys(shell)) assert.ok(!shown.withheld?.includes(name), name);

  const named = ['run', '--secret', 'GITHUB_TOKEN', '--shell', 'printf %s "$GITHUB_TOKEN" | wc -c'];
  assert.equal((await cli(server.home, named, everything)).stdout.trim(), '14');

  // An HTTP caller has no environment: it gets the paths and locale of the server, and the variables it sends.
  const body = {
    command: 'echo [$NODE_ENV] [$GIVEN]',
    env: { GIVEN: 'yes' },
    cwd: '/',
    waitMs: 30_000,
  };
  const over = await server.api('POST', '/api/commands', body);
  assert.equal(over.json<{ output: { text: string } }>().output.text, '[] [yes]\n');
});

test('npm test through the bridge sees the same environment as in the shell of the client', async (t) => {
  const server = await startServer(t);
  const project = tempFolder(t);
  const wanted = Object.entries(shell).map(([name, value]) => `process.env.${name} === ${JSON.stringify(value)}`); // prettier-ignore
  writeFileSync(
    join(project, 'check.js'),
    `if (!(${wanted.join(' && ')})) { console.error(process.env); process.exit(1); }
     console.log(Error.stackTraceLimit, process.env.PWD === process.cwd());`,
  );
  const manifest = { name: 'x', version: '1.0.0', scripts: { test: 'node check.js' } };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  const call = await connectBridge(t, server.home, everything);
  const answer = await call('run_command', { command: 'npm test', cwd: project, waitMs: 50_000 });
  assert.match(textOf(answer), /^77 true$/m);
});

test('queued jobs, retries and reruns keep the environment across kill -9, and it is stored nowhere else', async (t) => {
  const home = homeWith(t, {});
  const first = await startServer(t, { home });
  await first.cli('queue', 'set', 'command', 'later', '--paused');
  const line = `echo ran; ${printed}; exit 1`;
  const call = await connectBridge(t, home, everything);
  await call('run_command', { command: line, name: 'job', queue: 'later', waitMs: 0 });
  await first.kill();
  const folder = join(home, 'environments');
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  const files = readdirSync(folder);
  assert.ok(files.length > 0);
  for (const file of files) {
    assert.equal(statSync(join(folder, file)).mode & 0o777, 0o600);
    assert.doesNotMatch(readFileSync(join(folder, file), 'utf8'), /hidden-value/);
  }

  const second = await startServer(t, { home });
  await second.cli('queue', 'set', 'command', 'later', '--no-paused');
  const read = async (name: string) => {
    await second.cli('wait', name);
    return JSON.parse((await second.cli('logs', name)).stdout.split('\n')[1]!) as object;
  };
  assert.deepEqual(await read('job'), shell);
  const { id } = (await second.cli('retry', '--json', 'job')).json<Shown>();
  assert.deepEqual(await read(id), shell, 'not the environment of the retry call');
  const again = (await second.cli('rerun', '--json', id)).json<Shown>();
  assert.deepEqual(await read(again.id), shell);

  if (!onPostgres) await second.cli('backup', '--with-output', join(home, 'saved.sqlite'));
  const { stdout } = await second.cli('show', '--json', '--include-input', id);
  const events = await second.api('GET', `/api/events?jobId=${id}`);
  const seen = [
    { path: 'view', bytes: Buffer.from(stdout) },
    { path: 'events', bytes: Buffer.from(events.text) },
    { path: 'server log', bytes: Buffer.from(first.stderr() + second.stderr()) },
    // The job itself prints the values.
    ...contents(home).filter(({ path }) => !/\/out$/.test(path)),
  ];
  assert.ok(seen.length > 5);
  for (const { path, bytes } of seen)
    for (const value of ['value-of-', '/value/of/', 'hidden-value'])
      assert.equal(bytes.includes(value), false, `${path} contains ${value}`);
});

test('an environment above the limit is refused, and the error names the setting', async (t) => {
  const home = homeWith(t, { command: { environment: { maxBytes: 65_536 } } });
  const server = await startServer(t, { home });
  const refused = await cli(server.home, ['run', '--', 'true'], { LARGE: 'x'.repeat(100_000) });
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /command\.environment\.maxBytes/);
  assert.match(refused.stderr, /LARGE/);
});
