// `errand show` and `errand wait`: one job, or the end of several.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { throughRestarts } from '../patience.ts';
import { jobWords, localTime, size } from '../print.ts';
import { durationMs } from '../times.ts';

export type View = Record<string, unknown> & {
  id: string;
  status: string;
  attempts: { number: number; max: number };
  timings: { createdAt: string; startedAt?: string; finishedAt?: string; runMs?: number };
};

export const show = command({
  summary: 'one job',
  area: 'jobs',
  args: 'ID',
  flags: {
    input: { type: 'boolean', help: 'also what it was submitted with' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name one job.', { hint: usage });
    const client = await context.client();
    const input = {
      id: positionals[0],
      includeAttempts: true,
      ...(values.input ? { includeInput: true } : {}),
    };
    const { output, text } = await client.call<View>('get_job', input);
    if (values.json) context.screen.out(`${JSON.stringify(scripted(output))}\n`);
    else
      context.screen.out(
        `${jobWords(text ?? '', output.id)}\n${placeText(output)}${timingsText(output)}`,
      );
    return 0;
  },
});

/** Scripts rely on these three being there, null when there is nothing to say. */
export const scripted = (view: View): View => ({
  ...view,
  exitCode: view.exitCode ?? null,
  signal: view.signal ?? null,
});

/** Where it runs and what it uses, as far as its kind says so and the text for everybody does not. */
function placeText(view: View): string {
  const { cwd, pid, memoryPeakBytes } = view;
  const parts = [
    ...(typeof cwd === 'string' ? [`in ${cwd}`] : []),
    ...(typeof pid === 'number' ? [`process ${pid}`] : []),
    ...(typeof memoryPeakBytes === 'number' ? [`${size(memoryPeakBytes)} of memory`] : []),
  ];
  return parts.length > 0 ? `${parts.join(' · ')}\n` : '';
}

function timingsText({ timings, attempts }: View): string {
  const { createdAt, startedAt, finishedAt } = timings;
  const parts = [`created ${localTime(createdAt)}`];
  if (startedAt) parts.push(`started ${localTime(startedAt)}`);
  if (finishedAt) parts.push(`finished ${localTime(finishedAt)}`);
  if (attempts.max > 1 || attempts.number > 1)
    parts.push(`attempt ${attempts.number} of ${attempts.max}`);
  return `${parts.join(' · ')}\n`;
}

const roundMs = 45_000;

/** Exit code: 0 when all completed, 1 when one ended otherwise, 7 when the time was up. */
export const wait = command({
  summary: 'wait until jobs are over',
  area: 'jobs',
  args: 'ID…',
  flags: {
    any: { type: 'boolean', help: 'until the first of them is over' },
    timeout: { type: 'string', value: '10m', help: 'give up after this (exit code 7)' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals: ids, usage }) {
    if (ids.length === 0)
      throw new AppError('invalidInput', 'Name the jobs to wait for.', { hint: usage });
    const limitMs = values.timeout === undefined ? Infinity : durationMs(values.timeout, 1000);
    const answer = await waitFor(context, { ids, mode: values.any ? 'any' : 'all', limitMs });
    if (values.json)
      context.screen.out(`${JSON.stringify({ ...answer, jobs: answer.jobs.map(scripted) })}\n`);
    else for (const { id, status } of answer.jobs) context.screen.out(`${id} ${status}\n`);
    if (!answer.done) return 7;
    const ended = new Set(answer.reached.map(({ id }) => id));
    return answer.jobs.every(({ id, status }) => !ended.has(id) || status === 'completed') ? 0 : 1;
  },
});

interface WaitAnswer {
  done: boolean;
  reached: { id: string; reason: string }[];
  jobs: View[];
}

async function waitFor(
  context: CommandContext,
  wish: { ids: string[]; mode: 'any' | 'all'; limitMs: number },
): Promise<WaitAnswer> {
  const { clock } = context.program;
  const end = clock.now() + wish.limitMs;
  const { ids, mode } = wish;
  return throughRestarts(context, await context.client(), async (server, progress) => {
    for (;;) {
      const timeoutMs = Math.max(0, Math.min(roundMs, end - clock.now()));
      const input = { ids, mode, timeoutMs };
      const { output } = await server.call<WaitAnswer>('wait_for_jobs', input);
      progress();
      if (output.done || clock.now() >= end) return output;
    }
  });
}
