// A burst of commands uses the launcher. kill -9 of the server loses none of them, and the launcher exits with the server.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface View {
  id: string;
  status: string;
  exitCode: number | null;
  attempts: { number: number };
}

const jobs = 12;

test('a burst of commands keeps its true exit codes after kill -9 of the server', async (t) => {
  const folder = tempFolder(t);
  const go = join(folder, 'go');
  const first = await startServer(t);
  const start = async (command: string): Promise<View> => {
    const answer = await first.api('POST', '/api/commands', { command, cwd: folder, waitMs: 0 });
    assert.equal(answer.status, 200, answer.text);
    return answer.json<View>();
  };
  await until('the launcher runs', async () => {
    await Promise.all(Array.from({ length: 4 }, () => start('true')));
    return launchersOf(first.pid).length > 0;
  });
  const [launcher] = launchersOf(first.pid);
  const line = (n: number) => `until [ -e ${go} ]; do sleep 0.1; done; exit ${n}`;
  const views = await Promise.all(Array.from({ length: jobs }, (_, n) => start(line(n))));
  await until('all run', async () => {
    const answer = await first.api('GET', '/api/jobs?status=running&limit=100');
    return answer.json<{ jobs: View[] }>().jobs.length === jobs;
  });
  await first.kill();
  await until('the launcher has exited', () => commandOf(launcher!) === undefined);
  writeFileSync(go, '');
  const second = await startServer(t, { home: first.home });
  for (const [n, { id }] of views.entries()) {
    const end = await until(`${id} is over`, async () => {
      const view = (await second.api('GET', `/api/jobs/${id}`)).json<View>();
      return ['completed', 'failed'].includes(view.status) ? view : undefined;
    });
    assert.equal(end.exitCode, n);
    assert.equal(end.attempts.number, 1);
  }
});

function launchersOf(server: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === server && commandOf(pid)?.includes('launcher-main'));
}

const parentOf = (pid: number): number =>
  Number(/\) \w (\d+)/.exec(textOf(`/proc/${pid}/stat`) ?? '')?.[1]);

const commandOf = (pid: number): string | undefined => textOf(`/proc/${pid}/cmdline`) || undefined;

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}
