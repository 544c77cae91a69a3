// `errand show` prints one job; `errand wait` waits until jobs have ended.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { withReconnect } from '../reconnect.ts';
import { withJobCommands, localTime, statusColour } from '../print.ts';
import { sizeText } from '../../../runtime/units.ts';
import { dim, paint, type Screen } from '../screen.ts';
import { stateLine, waitReason } from '../wait-reason.ts';
import { durationMs } from '../times.ts';
import type { OutputOf } from '../../../contract.ts';
import type { getJob, JobView, waitForJobs } from '../../../contracts/jobs.ts';

export const show = command({
  summary: 'status of a job, and why it is waiting',
  about:
    'Shows a job: status, exit code, run time, what it is waiting for, where it runs, and its result or error.',
  examples: ['errand show tests', 'errand show @last --json'],
  args: 'ID',
  flags: {
    input: { type: 'boolean', help: 'also show the job input' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const { screen, program } = context;
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Exactly one job is required.', {
        hint: `${usage}. @last is the newest job.`,
      });
    const client = await context.client();
    const input = {
      id: positionals[0]!,
      includeAttempts: true,
      ...(values.input ? { includeInput: true } : {}),
    };
    const { output, text } = await client.call<typeof getJob>('get_job', input);
    if (values.json) {
      screen.out(`${JSON.stringify(withNullFields(output))}\n`);
      return 0;
    }
    const [head = '', ...lines] = withJobCommands(text ?? '', output.id).split('\n');
    const rest = lines.filter((line) => !/^(not before|waits for) /.test(line));
    screen.out(`${paintStatus(screen, head, output.status)}\n`);
    if (rest.length > 0) screen.out(`${rest.join('\n')}\n`);
    const reason = output.status === 'queued' ? waitReason(output, program.clock.now()) : '';
    if (reason !== '' && !rest.includes(reason)) screen.out(`${paint(screen, 'yellow', reason)}\n`);
    screen.out(dim(screen, `${locationText(output)}${timingsText(output)}`));
    return 0;
  },
});

/** Colours the first occurrence of the status. */
function paintStatus(screen: Screen, head: string, status: string): string {
  const style = statusColour[status];
  return style ? head.replace(status, paint(screen, style, status)) : head;
}

/** Scripts depend on these fields: they are null when unknown. */
export const withNullFields = (view: JobView): JobView => ({
  ...view,
  exitCode: view.exitCode ?? null,
  signal: view.signal ?? null,
});

/** Working directory, process id and peak memory, if the kind reports them. */
function locationText(view: JobView): string {
  const { cwd, pid, memoryPeakBytes } = view;
  const parts = [
    ...(typeof cwd === 'string' ? [`in ${cwd}`] : []),
    ...(typeof pid === 'number' ? [`process ${pid}`] : []),
    ...(typeof memoryPeakBytes === 'number' ? [`${sizeText(memoryPeakBytes)} of memory`] : []),
  ];
  return parts.length > 0 ? `${parts.join(' · ')}\n` : '';
}

function timingsText({ timings, attempts }: JobView): string {
  const { createdAt, startedAt, finishedAt } = timings;
  const created = localTime(createdAt);
  // The date is repeated only if it differs: one line fits into 80 columns.
  const day = created.slice(0, 11);
  const later = (time: string) => {
    const text = localTime(time);
    return text.startsWith(day) ? text.slice(day.length) : text;
  };
  const parts = [`created ${created}`];
  if (startedAt) parts.push(`started ${later(startedAt)}`);
  if (finishedAt) parts.push(`finished ${later(finishedAt)}`);
  if (attempts.max > 1 || attempts.number > 1)
    parts.push(`attempt ${attempts.number} of ${attempts.max}`);
  return `${parts.join(' · ')}\n`;
}

const roundMs = 45_000;

/** Exit code: 0 if all jobs completed, 1 if one did not, 7 after the timeout. */
export const wait = command({
  summary: 'wait until jobs have ended',
  about:
    'Waits until jobs have ended. The exit code is 0 if all jobs completed, 1 if one of them did not, and 7 after the timeout.',
  examples: ['errand wait tests build', 'errand wait @last --timeout 10m'],
  args: 'ID…',
  flags: {
    any: { type: 'boolean', help: 'return when the first job has ended' },
    timeout: { type: 'string', value: '10m', help: 'give up after this time (exit code 7)' },
    quiet: { type: 'boolean', short: 'q', help: 'do not print what it is waiting for' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run(context, { values, positionals: ids, usage }) {
    if (ids.length === 0)
      throw new AppError('invalidInput', 'At least one job is required.', { hint: usage });
    const limitMs = values.timeout === undefined ? Infinity : durationMs(values.timeout, 1000);
    const quiet = values.json === true || values.quiet === true;
    const options = { ids, mode: values.any ? 'any' : 'all', limitMs, quiet } as const;
    const response = await waitFor(context, options);
    if (values.json)
      context.screen.out(
        `${JSON.stringify({ ...response, jobs: response.jobs.map(withNullFields) })}\n`,
      );
    else for (const { id, status } of response.jobs) context.screen.out(`${id} ${status}\n`);
    if (!response.done) return 7;
    const ended = new Set(response.reached.map(({ id }) => id));
    return response.jobs.every(({ id, status }) => !ended.has(id) || status === 'completed')
      ? 0
      : 1;
  },
});

type WaitResult = OutputOf<typeof waitForJobs>;

/** After this, the open jobs are printed. Most jobs end sooner. */
const firstRoundMs = 700;

async function waitFor(
  context: CommandContext,
  options: { ids: string[]; mode: 'any' | 'all'; limitMs: number; quiet: boolean },
): Promise<WaitResult> {
  const { screen, program } = context;
  const { clock } = program;
  const end = clock.now() + options.limitMs;
  const { ids, mode } = options;
  let reported = '';
  return withReconnect(context, await context.client(), async (server, progress) => {
    for (;;) {
      const longest = reported === '' && !options.quiet ? firstRoundMs : roundMs;
      const waitMs = Math.max(0, Math.min(longest, end - clock.now()));
      const { output } = await server.call<typeof waitForJobs>('wait_for_jobs', {
        ids,
        mode,
        waitMs,
      });
      progress();
      if (output.done || clock.now() >= end) return output;
      const open = output.jobs.filter(({ timings }) => timings.finishedAt === undefined);
      const states = open.map((view) => view.id + view.status).join();
      if (!options.quiet && states !== reported) {
        const lines = open.map((view) => `  ${stateLine(view, clock.now())}\n`);
        screen.err(
          dim(
            screen,
            `waiting for ${lines.length} job${lines.length === 1 ? '' : 's'}:\n${lines.join('')}`,
          ),
        );
      }
      reported = states;
    }
  });
}
