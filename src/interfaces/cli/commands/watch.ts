// `errand watch`: prints one line for each job that needs attention. Made for monitors of agent clients, tmux
// and scripts.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve, sep } from 'node:path';
import type { listEvents, waitForJobs } from '../../../contracts/jobs.ts';
import { AppError } from '../../../errors.ts';
import { durationText } from '../../../runtime/units.ts';
import type { Client } from '../client.ts';
import { command, type CommandContext } from '../command.ts';
import { sanitize } from '../print.ts';
import { withReconnect } from '../reconnect.ts';

const maxLineChars = 600;
const maxOutputLines = 6;

export const watch = command({
  summary: 'print a line for each job that needs attention',
  about:
    'Prints one line when a job finishes, needs input, becomes ready or runs longer than usual, until ctrl-c. Each event is printed once; only a watcher killed while it prints may repeat its last line. With --cursor or --resume it continues where an earlier call stopped. It survives restarts of the server.',
  examples: [
    'errand watch --mine',
    'errand watch --tag deploy --format json',
    'errand watch --resume ~/.cache/errand-watch',
  ],
  flags: {
    mine: { type: 'boolean', help: 'only jobs of the current folder or below' },
    tag: { type: 'string', value: 'TAG', help: 'only jobs with this tag' },
    name: { type: 'string', value: 'NAME', help: 'only jobs with this name' },
    parent: { type: 'string', value: 'ID', help: 'only jobs that this job started' },
    format: { type: 'string', value: 'line|json', help: 'a line of text (default) or of JSON' },
    cursor: { type: 'string', value: 'N', help: 'continue after this cursor (see --format json)' },
    resume: { type: 'string', value: 'FILE', help: 'keep the cursor in this file' },
    once: { type: 'boolean', help: 'exit after the first line' },
  },
  async run(context, { values }) {
    const { format = 'line', tag, name, parent, resume } = values;
    if (format !== 'line' && format !== 'json')
      throw new AppError('invalidInput', `--format must be line or json, not ${format}.`);
    const filters = Object.fromEntries(
      Object.entries({ tag, name, parent }).filter(([, value]) => value !== undefined),
    );
    const kept = resume !== undefined && existsSync(resume) ? readFileSync(resume, 'utf8') : '';
    const start = values.cursor ?? (kept.trim() === '' ? undefined : kept.trim());
    const folder = values.mine ? process.cwd() : undefined;
    return follow(context, { filters, start, folder, format, resume, once: values.once === true });
  },
});

interface WatchOptions {
  filters: Record<string, unknown>;
  start: string | undefined;
  /** Only commands that run here or below, and other jobs that were started from there. */
  folder: string | undefined;
  format: 'line' | 'json';
  resume: string | undefined;
  once: boolean;
}

/** An item of watch_jobs. */
interface Item {
  cursor: string;
  event?: { jobId: string; type: string; at: string; data: Record<string, unknown> };
  reset?: boolean;
}

async function follow(context: CommandContext, options: WatchOptions): Promise<number> {
  const { screen } = context;
  const stop = new AbortController();
  const leave = () => stop.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, leave);
  const first = await context.client();
  let cursor = options.start ?? (await newestCursor(first));
  const keep = () => {
    if (options.resume !== undefined) writeFileSync(options.resume, `${cursor}\n`, { mode: 0o600 });
  };
  keep();
  try {
    return await withReconnect(context, first, async (server, progress) => {
      const input = { ...options.filters, cursor, complete: true };
      for await (const { data } of server.follow('watch_jobs', input, stop.signal)) {
        progress();
        const item = data as Item;
        if (item.reset)
          screen.err('The cursor is of another database; continuing with the newest event.\n');
        const notice = await attentionOf(server, item, options.folder);
        // The cursor is kept after the line is printed: a crash in between repeats a line, and never loses one.
        if (notice)
          screen.out(
            options.format === 'json'
              ? `${JSON.stringify({ cursor: item.cursor, ...notice })}\n`
              : lineOf(notice),
          );
        ({ cursor } = item);
        if (notice || item.reset) keep();
        if (notice && options.once) return 0;
      }
      return stop.signal.aborted ? 0 : 'again';
    });
  } catch (error) {
    if (stop.signal.aborted) return 0;
    throw error;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, leave);
  }
}

async function newestCursor(server: Client): Promise<string> {
  return String((await server.callNamed('watch_jobs', {})).output.cursor);
}

interface Notice {
  id: string;
  reason: string;
  status: string;
  at: string;
  name?: string;
  summary?: string;
  exitCode?: number;
  runMs?: number;
  lines?: string[];
}

interface View {
  id: string;
  status: string;
  name?: string;
  summary?: string;
  cwd?: string;
  exitCode?: number | null;
  timings?: { runMs?: number };
  error?: { code: string; message: string };
  output?: { text: string };
}

const ends = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

/** Undefined if the event needs no attention, or belongs to another folder. */
async function attentionOf(
  server: Client,
  { event }: Item,
  folder: string | undefined,
): Promise<Notice | undefined> {
  const reason = event && reasonOf(event);
  if (!reason) return undefined;
  const view = await viewOf(server, event.jobId);
  if (!view) return undefined;
  if (folder !== undefined && !isBelow(view.cwd ?? (await startedFrom(server, view.id)), folder))
    return undefined;
  const { id, status, name, summary, exitCode, timings, output, error } = view;
  const printed = output?.text ?? (error?.code === 'exitCode' ? undefined : error?.message);
  const lines = (printed ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  return {
    id,
    reason,
    status,
    at: event.at,
    ...(name === undefined ? {} : { name }),
    ...(summary === undefined ? {} : { summary }),
    ...(typeof exitCode === 'number' ? { exitCode } : {}),
    ...(timings?.runMs === undefined ? {} : { runMs: timings.runMs }),
    ...(ends.has(reason) && lines.length > 0 ? { lines: shownLines(lines, reason) } : {}),
  };
}

function reasonOf({ type, data }: NonNullable<Item['event']>): string | undefined {
  if (ends.has(type) || type === 'input_required') return type;
  if (type !== 'progress') return undefined;
  if (data.stage === 'ready') return 'ready';
  return data.notice === 'slowerThanUsual' ? 'slower_than_usual' : undefined;
}

/** A failure shows its error lines, which come first; a success shows its end. */
const shownLines = (lines: readonly string[], reason: string): string[] =>
  reason === 'completed' ? lines.slice(-1) : lines.slice(0, maxOutputLines);

/** The state with the lines that matter. A job that was deleted since has none. */
async function viewOf(server: Client, id: string): Promise<View | undefined> {
  try {
    const { output } = await server.call<typeof waitForJobs>('wait_for_jobs', {
      ids: [id],
      waitMs: 0,
    });
    return output.jobs[0];
  } catch (error) {
    if (error instanceof AppError && error.code === 'notFound') return undefined;
    throw error;
  }
}

/** The folder of the client that started a job without a folder of its own, such as a crawl. */
async function startedFrom(server: Client, id: string): Promise<string | undefined> {
  const { output } = await server.call<typeof listEvents>('list_events', { id, limit: 1 });
  const { folder } = (output.events[0]?.data ?? {}) as { folder?: string };
  return folder;
}

const isBelow = (cwd: string | undefined, folder: string): boolean =>
  cwd !== undefined && (resolve(cwd) === folder || resolve(cwd).startsWith(folder + sep));

const words = new Map([
  ['input_required', 'needs input'],
  ['ready', 'is ready'],
  ['slower_than_usual', 'runs longer than usual'],
  ['timed_out', 'timed out'],
  ['cancelled', 'was cancelled'],
]);

function lineOf({ id, name, reason, exitCode, runMs, lines = [], summary }: Notice): string {
  const title = name === undefined ? id : `${id} "${name}"`;
  const code = exitCode === undefined ? '' : ` with exit code ${exitCode}`;
  const time = runMs === undefined ? '' : ` after ${durationText(runMs)}`;
  const what = name === undefined && summary !== undefined ? ` (${summary})` : '';
  const text = `${title} ${words.get(reason) ?? reason}${code}${time}${what}${lines.length > 0 ? `: ${lines.join(' | ')}` : ''}`;
  const line = sanitize(text).replaceAll(/\s+/g, ' ');
  return `${line.length > maxLineChars ? `${line.slice(0, maxLineChars - 1)}…` : line}\n`;
}
