// The command line of MCP Inspector, as people use it to inspect a server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { bin, serverEnv, startServer } from '../helpers/server.ts';

const inspector = join(import.meta.dirname, 'node_modules/.bin/mcp-inspector');
const run = promisify(execFile);

test('Inspector lists the tools, runs a command and reads an error', async (t) => {
  const { home } = await startServer(t);
  const ask = async (...args: string[]) => {
    const command = ['--cli', process.execPath, bin, 'mcp', ...args];
    const { stdout } = await run(inspector, command, { env: serverEnv(home) });
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const call = (name: string, ...args: string[]) =>
    ask(
      '--method',
      'tools/call',
      '--tool-name',
      name,
      ...args.flatMap((arg) => ['--tool-arg', arg]),
    );
  const { tools } = (await ask('--method', 'tools/list')) as { tools: { name: string }[] };
  assert.ok(tools.some(({ name }) => name === 'run_command'));
  const done = await call('run_command', 'command=echo from the inspector', 'waitMs=30000');
  const { status, exitCode } = done.structuredContent as { status: string; exitCode: number };
  assert.deepEqual([status, exitCode], ['completed', 0]);
  assert.match(JSON.stringify(done.content), /from the inspector/);
  // If a tool reports an error, Inspector prints it and exits with a non-zero code.
  const missing = call('get_job', 'id=job_0000000000000000');
  await assert.rejects(missing, { code: 5, stdout: /notFound: .*\\nlist_jobs/ });
});
