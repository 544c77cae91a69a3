// A job as something to paste: a command line, a curl call, or a tool call for an agent.
import { base } from './base.ts';
import type { Job } from './types.ts';

interface CommandInput {
  command?: string;
  args?: string[];
  cwd?: string;
  tty?: unknown;
  stdin?: string;
  streams?: string;
}

export function asCommand(job: Job): string {
  const input = commandOf(job);
  if (!input) return `errand rerun ${job.id}`;
  const words = [
    'errand run',
    ...(job.name === undefined ? [] : [`--name ${quote(job.name)}`]),
    ...(job.tags ?? []).map((tag) => `--tag ${quote(tag)}`),
    ...(job.queue === 'default' ? [] : [`--queue ${quote(job.queue)}`]),
    ...(input.cwd === undefined ? [] : [`--cwd ${quote(input.cwd)}`]),
    ...(input.tty === undefined ? [] : ['--tty']),
    ...(input.args
      ? [`-- ${[input.command ?? '', ...input.args].map(quote).join(' ')}`]
      : [`--shell ${quote(input.command ?? '')}`]),
  ];
  return words.join(' ');
}

export function asCurl(job: Job): string {
  const [path, body] = callOf(job);
  return [
    `curl -H "Authorization: Bearer $ERRAND_KEY" -H 'content-type: application/json'`,
    `-d ${quote(JSON.stringify(body))} ${quote(new URL(path, base).href)}`,
  ].join(' \\\n  ');
}

export function asToolCall(job: Job): string {
  const input = commandOf(job);
  const call = input
    ? { name: 'run_command', arguments: runInput(job, input) }
    : { name: 'rerun_job', arguments: { id: job.id } };
  return JSON.stringify(call, null, 2);
}

function callOf(job: Job): [path: string, body: unknown] {
  const input = commandOf(job);
  return input ? ['api/commands', runInput(job, input)] : [`api/jobs/${job.id}/rerun`, {}];
}

function runInput(job: Job, input: CommandInput): Record<string, unknown> {
  const { command, args, cwd, tty, stdin, streams } = input;
  return {
    command,
    ...(args ? { args } : {}),
    ...(cwd === undefined ? {} : { cwd }),
    ...(tty === undefined ? {} : { tty: true }),
    ...(stdin === undefined || stdin === 'none' || tty !== undefined ? {} : { stdin }),
    ...(streams === undefined || streams === 'merged' ? {} : { streams }),
    ...(job.name === undefined ? {} : { name: job.name }),
    ...(job.tags ? { tags: job.tags } : {}),
    ...(job.queue === 'default' ? {} : { queue: job.queue }),
  };
}

function commandOf({ kind, input }: Job): CommandInput | undefined {
  return kind === 'command' && input !== null && typeof input === 'object' ? input : undefined;
}

function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
