// A server that a front started has no port of its own; its workers outlive it all the same and find the next one.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { freePort, kill, serve } from '../../helpers/endpoint-process.ts';
import { handlerFile } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const main = join(import.meta.dirname, '../../../src/main.ts');
const recipe = JSON.stringify({ module: handlerFile });
/** Every look is a program of its own, which takes seconds where the machine is busy. */
const patienceMs = 90_000;
type Json = Record<string, unknown>;

test('kill -9 of a server that a front started: the next one is where its workers ask', async (t) => {
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

test('where that address cannot be had, what the workers hold goes to others at once', async (t) => {
  const { errand, pid, path } = home(t);
  const id = await started(errand, join(path, 'never'));
  kill(pid());
  const server = await serve(t, path, await freePort());
  const again = async () => {
    const { body } = await server.call('GET', `/v2/auto/status/${id}`);
    return body.retries === 1 && body.status === 'IN_PROGRESS';
  };
  await until('another worker has it', again, patienceMs);
  await server.call('POST', `/v2/auto/cancel/${id}`, '');
});

function home(t: TestContext) {
  let path = '';
  const run = promisify(execFile);
  const errand = async (...args: string[]): Promise<Json> => {
    const options = { env: { ...process.env, ERRAND_HOME: path } };
    const { stdout } = await run(process.execPath, [main, ...args, '--json'], options);
    return JSON.parse(stdout) as Json;
  };
  const pid = () => Number(readFileSync(join(path, 'server.pid'), 'utf8'));
  // Before the folder goes: hooks run in the order they were added.
  t.after(async () => {
    await errand('endpoint', 'save', 'auto', '--workers-max', '0');
    const isEmpty = async () => {
      const { workers } = await errand('endpoint', 'workers', 'auto');
      return (workers as unknown[]).length === 0;
    };
    await until('its workers have ended', isEmpty, patienceMs);
    kill(pid());
  });
  path = join(tempFolder(t), 'home');
  return { errand, pid, path };
}

/** A job that a worker is at until there is that file. */
async function started(errand: (...args: string[]) => Promise<Json>, end: string): Promise<string> {
  await errand('endpoint', 'save', 'auto', '--recipe', recipe);
  const input = JSON.stringify({ do: 'file', value: end });
  const { id } = await errand('endpoint', 'run', 'auto', input);
  const isRunning = async () => (await errand('show', id as string)).status === 'running';
  await until('it runs', isRunning, patienceMs);
  return id as string;
}
