// A server started by a bridge has no configured port. Its workers still outlive it and find the next server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { kill, serve } from '../../../helpers/endpoint-process.ts';
import { freePort } from '../../../helpers/port.ts';
import { handlerFile } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';
import { bin } from '../../../helpers/server.ts';

const recipe = JSON.stringify({ module: handlerFile });
/** Every check starts a program, which takes seconds on a busy machine. */
const timeoutMs = 90_000;
type Json = Record<string, unknown>;

test('after kill -9 of a server started by a bridge, the next one listens where its workers poll', async (t) => {
  const { errand, pid, path } = home(t);
  const end = join(path, 'end');
  const id = await started(errand, end);
  kill(pid());
  assert.equal((await errand('show', id)).status, 'running', 'the next one knows it');
  writeFileSync(end, '');
  const ended = await errand('wait', id).then(() => errand('show', id));
  assert.deepEqual([ended.status, ended.result], ['completed', 'alive']);
  assert.deepEqual(ended.attempts, { number: 1, max: 2 }, 'it was not run again');
});

test('if that address is taken, the jobs of the workers go to other workers immediately', async (t) => {
  const { errand, pid, path } = home(t);
  const id = await started(errand, join(path, 'never'));
  kill(pid());
  const server = await serve(t, path, await freePort());
  const again = async () => {
    const { body } = await server.call('GET', `/v2/auto/status/${id}`);
    return body.retries === 1 && body.status === 'IN_PROGRESS';
  };
  await until('another worker has it', again, timeoutMs);
  await server.call('POST', `/v2/auto/cancel/${id}`, '');
});

function home(t: TestContext) {
  let path = '';
  const run = promisify(execFile);
  const errand = async (...args: string[]): Promise<Json> => {
    const options = { env: { ...process.env, ERRAND_HOME: path } };
    const { stdout } = await run(process.execPath, [bin, ...args, '--json'], options);
    return JSON.parse(stdout) as Json;
  };
  const pid = () => Number(readFileSync(join(path, 'server.pid'), 'utf8'));
  // Before the folder is removed, because hooks run in the order they were added.
  t.after(async () => {
    await errand('endpoint', 'save', 'auto', '--max-workers', '0');
    const isEmpty = async () => {
      const { workers } = await errand('endpoint', 'workers', 'auto');
      return (workers as unknown[]).length === 0;
    };
    await until('its workers have ended', isEmpty, timeoutMs);
    kill(pid());
  });
  path = join(tempFolder(t), 'home');
  return { errand, pid, path };
}

/** Starts a job that runs until that file exists. */
async function started(errand: (...args: string[]) => Promise<Json>, end: string): Promise<string> {
  await errand('endpoint', 'save', 'auto', '--recipe', recipe);
  const input = JSON.stringify({ do: 'file', value: end });
  const { id } = await errand('endpoint', 'run', 'auto', input);
  const isRunning = async () => (await errand('show', id as string)).status === 'running';
  await until('it runs', isRunning, timeoutMs);
  return id as string;
}
