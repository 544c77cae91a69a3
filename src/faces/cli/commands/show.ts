// `errand show` and `errand wait`: one job, or the end of several.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { throughRestarts } from '../patience.ts';
import { jobWords, localTime, statusColour } from '../print.ts';
import { sizeText } from '../../../runtime/units.ts';
import { dim, paint, type Screen } from '../screen.ts';
import { stateLine, waitReason } from '../waiting.ts';
import { durationMs } from '../times.ts';

export type View = Record<string, unknown> & {
  id: string;
  status: string;
  attempts: { number: number; max: number };
  timings: { createdAt: string; startedAt?: string; finishedAt?: string; runMs?: number };
};

export const show = command({
  summary: 'state of a job, and why it waits',
  about:
    'Shows the state of a job: status, exit code, how long it ran, what it waits for and what is ahead of it, where it runs, and its result or error.',
  examples: ['errand show tests', 'errand show @last --json'],
  args: 'ID',
  flags: {
    input: { type: 'boolean', help: 'also show what was submitted' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const { screen, program } = context;
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name one job.', {
        hint: `${usage}. @last is the newest.`,
      });
    const client = await context.client();
    const input = {
      id: positionals[0],
      includeAttempts: true,
      ...(values.input ? { includeInput: true } : {}),
    };
    const { output, text } = await client.call<View>('get_job', input);
    if (values.json) {
      screen.out(`${JSON.stringify(scripted(output))}\n`);
      return 0;
    }
    const [head = '', ...lines] = jobWords(text ?? '', output.id).split('\n');
    const rest = lines.filter((line) => !/^(not before|waits for) /.test(line));
    screen.out(`${paintedHead(screen, head, output.status)}\n`);
    if (rest.length > 0) screen.out(`${rest.join('\n')}\n`);
    const reason = output.status === 'queued' ? waitReason(output, program.clock.now()) : '';
    if (reason !== '' && !rest.includes(reason)) screen.out(`${paint(screen, 'yellow', reason)}\n`);
    screen.out(dim(screen, `${placeText(output)}${timingsText(output)}`));
    return 0;
  },
});

/** The status in its colour, wherever the head names it first. */
function paintedHead(screen: Screen, head: string, status: string): string {
  const style = statusColour[status];
  return style ? head.replace(status, paint(screen, style, status)) : head;
}

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
    ...(typeof memoryPeakBytes === 'number' ? [`${sizeText(memoryPeakBytes)} of memory`] : []),
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
  summary: 'wait until jobs have ended',
  about:
    'Waits until jobs have ended. The exit code is 0 when all of them completed, 1 when one ended otherwise, 7 when the time was up.',
  examples: ['errand wait tests build', 'errand wait @last --timeout 10m'],
  args: 'ID…',
  flags: {
    any: { type: 'boolean', help: 'until the first of them has ended' },
    timeout: { type: 'string', value: '10m', help: 'give up after this (exit code 7)' },
    quiet: { type: 'boolean', short: 'q', help: 'do not say what it waits for' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals: ids, usage }) {
    if (ids.length === 0)
      throw new AppError('invalidInput', 'Name the jobs to wait for.', { hint: usage });
    const limitMs = values.timeout === undefined ? Infinity : durationMs(values.timeout, 1000);
    const quiet = values.json === true || values.quiet === true;
    const wish = { ids, mode: values.any ? 'any' : 'all', limitMs, quiet } as const;
    const answer = await waitFor(context, wish);
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

/** How soon it is said what the wait is for: most ends come sooner. */
const firstRoundMs = 700;

async function waitFor(
  context: CommandContext,
  wish: { ids: string[]; mode: 'any' | 'all'; limitMs: number; quiet: boolean },
): Promise<WaitAnswer> {
  const { screen, program } = context;
  const { clock } = program;
  const end = clock.now() + wish.limitMs;
  const { ids, mode } = wish;
  let said = '';
  return throughRestarts(context, await context.client(), async (server, progress) => {
    for (;;) {
      const longest = said === '' && !wish.quiet ? firstRoundMs : roundMs;
      const timeoutMs = Math.max(0, Math.min(longest, end - clock.now()));
      const { output } = await server.call<WaitAnswer>('wait_for_jobs', { ids, mode, timeoutMs });
      progress();
      if (output.done || clock.now() >= end) return output;
      const open = output.jobs.filter(({ timings }) => timings.finishedAt === undefined);
      const states = open.map((view) => view.id + view.status).join();
      if (!wish.quiet && states !== said) {
        const lines = open.map((view) => `  ${stateLine(view, clock.now())}\n`);
        screen.err(
          dim(
            screen,
            `waiting for ${lines.length} job${lines.length === 1 ? '' : 's'}:\n${lines.join('')}`,
          ),
        );
      }
      said = states;
    }
  });
}
