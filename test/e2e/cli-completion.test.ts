// Shell completion: runs the script of `errand completion bash` in a real bash.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { tempFolder } from '../helpers/folder.ts';
import { bin, serverEnv, startServer } from '../helpers/server.ts';

test('completion offers commands, flags, flag values, and job ids for commands that accept a job', async (t) => {
  const server = await startServer(t);
  const run = await server.cli('run', '--json', '--', 'true');
  const { id } = run.json<{ id: string }>();
  const folder = tempFolder(t);
  symlinkSync(bin, join(folder, 'errand'));
  const path = [folder, dirname(process.execPath), process.env.PATH].join(delimiter);
  const env = { ...serverEnv(server.home), PATH: path };
  const offered = async (...words: string[]) => {
    const script = `eval "$(errand completion bash)"
      COMP_WORDS=(errand "$@"); COMP_CWORD=$#; _errand; echo "\${COMPREPLY[*]}"`;
    const asked = promisify(execFile)('bash', ['-c', script, 'bash', ...words], { env });
    return (await asked).stdout.trim().split(' ');
  };
  assert.deepEqual(await offered('cance'), ['cancel']);
  assert.deepEqual(await offered('queue', ''), ['list', 'set']);
  assert.deepEqual(await offered('run', '--det'), ['--detach']);
  assert.deepEqual(await offered('list', '--status', 'fa'), ['failed']);
  assert.ok((await offered('list', '--')).includes('--json'));
  for (const command of ['show', 'cancel', 'logs', 'wait', 'events'])
    assert.deepEqual(await offered(command, 'job_'), [id], command);
  for (const command of ['run', 'list', 'mcp'])
    assert.deepEqual(await offered(command, 'job_'), [''], command);
});
