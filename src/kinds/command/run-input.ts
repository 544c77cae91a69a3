// What run_command takes and answers, as schemas.
import { z } from 'zod';
import { labelList } from '../../jobs/labels.ts';
import { jobId, queueName } from '../../jobs/operation-needs.ts';
import { jobView } from '../../jobs/view.ts';
import {
  commandLine,
  commandWords,
  environmentName,
  environmentValues,
  readyCheck,
  terminalSize,
} from './input.ts';

const stdinBytesMax = 4 * 2 ** 20;
/** Below the 60 s after which most MCP clients give up. */
const waitMsMax = 50_000;

export const runInput = z
  .strictObject({
    command: commandLine.optional().describe('Shell line: pipes, &&, quotes and $VARS work'),
    argv: commandWords.optional().describe('Program and arguments instead of a line; no shell'),
    cwd: z.string().max(4096).optional().describe("Folder; default: the caller's own"),
    env: environmentValues.default({}).describe('Variables; stored with the job, so no secrets'),
    secrets: z
      .array(environmentName)
      .max(100)
      .default([])
      .describe("Variables of the caller's environment to pass without storing them"),
    name: z.string().min(1).max(200).optional().describe('To find it by; what ensure goes by'),
    tags: z.array(z.string().min(1).max(100)).max(20).default([]),
    labels: labelList.default([]).describe('In a cluster: labels of the node it must run on'),
    waitMs: z
      .number()
      .int()
      .min(0)
      .max(waitMsMax)
      .default(5000)
      .describe('Answer at the end (or when ready), at the latest after this; 0: at once'),
    timeoutMs: z.number().int().min(1).optional().describe('End it after so long; default never'),
    stdin: z
      .union([z.enum(['none', 'open']), z.strictObject({ text: z.string().max(stdinBytesMax) })])
      .default('none')
      .describe('open: send_input later'),
    tty: z
      .union([z.boolean(), terminalSize])
      .default(false)
      .describe('A real terminal, for REPLs and full-screen programs'),
    streams: z.enum(['merged', 'split']).default('merged').describe('split: stderr apart'),
    ready: readyCheck.optional().describe('When a server counts as up'),
    ensure: z
      .boolean()
      .default(false)
      .describe('With name: return the healthy running one instead of starting a second'),
    queue: queueName.optional(),
    priority: z.number().int().min(-1000).max(1000).optional(),
    runAt: z.iso.datetime({ offset: true }).optional().describe('Not before'),
    ttlMs: z.number().int().min(1).optional().describe('Give up if not started by then'),
    after: z.array(jobId).max(100).optional().describe('Job ids to complete first'),
    attemptsMax: z.number().int().min(1).max(100).default(1),
    idempotencyKey: z.string().min(1).max(200).optional(),
    outputBytesMax: z.number().int().min(1024).optional().describe('Cap of its output'),
    ring: z.boolean().optional().describe('At the cap drop the oldest output instead (Linux)'),
  })
  .superRefine((input, context) => {
    const wrong = (message: string) => context.addIssue({ code: 'custom', message });
    if ((input.command === undefined) === (input.argv === undefined))
      wrong('give exactly one of command and argv');
    if (input.ensure && input.name === undefined) wrong('ensure needs a name');
    if (input.tty !== false && input.streams === 'split') wrong('a terminal has one stream');
    if (input.ring && input.streams === 'split') wrong('a ring needs merged streams');
    if (input.tty !== false && typeof input.stdin === 'object')
      wrong('with tty send text by send_input');
  });

export type RunInput = z.infer<typeof runInput>;

export const runOutput = jobView.extend({
  existing: z.boolean().optional().describe('It ran already: ensure or idempotencyKey'),
  output: z.looseObject({ text: z.string(), next: z.number() }).optional(),
  hint: z.string().optional(),
});
export type RunOutput = z.infer<typeof runOutput>;
