// The tools of the background-job dialect on a server in this process, as short functions.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { backgroundJobDialect } from '../../../src/dialects/background-job/index.ts';
import type { Caller } from '../../../src/operation.ts';
import { startApp, type TestApp } from '../../helpers/app.ts';
import { until } from '../../helpers/until.ts';

export const programs = join(import.meta.dirname, '../../fixtures/programs');

export const me: Caller = {
  owner: 'me',
  scopes: new Set(['read', 'run']),
  admin: false,
  local: true,
};

export interface Output {
  stdout: string;
  stderr: string;
}

export async function start(t: TestContext, settings: object = {}) {
  const test_ = await startApp(t, { command: { checkMs: 50, killGraceMs: 300, ...settings } });
  return { ...test_, ...toolsOf(test_) };
}

function toolsOf({ app }: Pick<TestApp, 'app'>) {
  const tool = async <T>(name: string, input: object = {}): Promise<T> => {
    const found = backgroundJobDialect.tools!.find((one) => one.name === name)!;
    const answer = await found.run(found.input.parse(input), {
      operations: app.operations,
      context: { caller: me, signal: AbortSignal.timeout(60_000) },
    });
    if (answer.isError) throw new Error(answer.text);
    if (found.output) found.output.parse(answer.structured);
    return answer.structured as T;
  };
  const execute = async (command: string) =>
    (await tool<{ job_id: string }>('execute_command', { command })).job_id;
  const status = async (job_id: string) =>
    (await tool<{ status: string }>('get_job_status', { job_id })).status;
  const output = (job_id: string) => tool<Output>('get_job_output', { job_id });
  const finish = async (command: string) => {
    const id = await execute(command);
    await until('over', async () => (await status(id)) !== 'running');
    return { id, status: await status(id), ...(await output(id)) };
  };
  const kill = async (job_id: string) =>
    (await tool<{ status: string }>('kill_job', { job_id })).status;
  const interact = (job_id: string, input: string) =>
    tool<Output>('interact_with_job', { job_id, input });
  return { tool, execute, status, output, finish, kill, interact };
}
