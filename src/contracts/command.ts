// Contracts of the operations on commands that interfaces and dialects call.
import { z } from 'zod';
import { defineContract } from '../contract.ts';
import { omitted } from '../runtime/response-budget.ts';
import { endReceiver } from './webhooks.ts';
import { jobId, jobView, labelList, queueName, statuses, waitField } from './jobs.ts';

export const readyCheck = z
  .strictObject({
    text: z.string().min(1).max(500).optional().describe('Text that it prints'),
    port: z.number().int().min(1).max(65_535).optional().describe('TCP port it listens on'),
    http: z
      .url({ protocol: /^https?$/ })
      .max(2000)
      .optional()
      .describe('Local URL that returns 2xx'),
  })
  .refine((check) => Object.keys(check).length > 0, 'set text, port or http');

export const terminalSize = z.strictObject({
  cols: z.number().int().min(2).max(1000).default(120).describe('Columns'),
  rows: z.number().int().min(2).max(1000).default(40).describe('Rows'),
});

const environmentName = z.string().regex(/^[A-Za-z_]\w{0,199}$/, 'not a variable name');
const environmentValues = z.record(
  environmentName,
  z
    .string()
    .max(131_000)
    .regex(/^[^\0]*$/, 'must not contain NUL'),
);

const word = z
  .string()
  .max(131_000)
  .regex(/^[^\0]*$/, 'must not contain NUL');
const commandLine = word.min(1).refine((text) => text.trim() !== '', 'must not be blank');
const commandArgv = z.array(word).min(1).max(5000);

const maxStdinBytes = 4 * 2 ** 20;

const runInput = z
  .strictObject({
    command: commandLine.optional().describe('Shell line; pipes, && and $VARS work'),
    argv: commandArgv.optional().describe('Instead: program and arguments, no shell'),
    cwd: z
      .string()
      .max(4096)
      .optional()
      .describe("Folder; default: your client's, over HTTP the server user's home"),
    env: environmentValues.default({}).describe('Variables to add; stored, so no secrets'),
    secrets: z
      .array(environmentName)
      .max(100)
      .default([])
      .describe('Names of secret variables to pass, like GITHUB_TOKEN; never stored'),
    name: z.string().min(1).max(200).optional().describe('Name to find the job by'),
    tags: z
      .array(z.string().min(1).max(100))
      .max(20)
      .default([])
      .describe('Tags to find the job by'),
    labels: labelList.default([]).describe('In a cluster: labels that the node must have'),
    waitMs: waitField('Wait this long for the end or ready').default(5000),
    timeoutMs: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe('Kill it after this many ms; default: never'),
    stdin: z
      .union([z.enum(['none', 'open']), z.strictObject({ text: z.string().max(maxStdinBytes) })])
      .default('none')
      .describe('none, open (type later with send_input), or {text}: the complete input'),
    tty: z
      .union([z.boolean(), terminalSize])
      .default(false)
      .describe('true or {cols, rows}: run in a terminal, for REPLs and full-screen programs'),
    streams: z
      .enum(['merged', 'split'])
      .default('merged')
      .describe('split: stderr apart from stdout'),
    ready: readyCheck.optional().describe('For servers: return when all of these hold'),
    ensure: z
      .boolean()
      .default(false)
      .describe('With name: return the healthy running job of that name instead'),
    queue: queueName.optional().describe('Queue with its own limits'),
    priority: z.number().int().min(-1000).max(1000).optional().describe('Higher runs first'),
    runAt: z.iso.datetime({ offset: true }).optional().describe('Start at this time'),
    ttlMs: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe('Give up if not started within this many ms'),
    after: z.array(jobId).max(100).optional().describe('Job ids to complete first'),
    maxAttempts: z
      .number()
      .int()
      .min(1)
      .max(100)
      .default(1)
      .describe('Maximum attempts until it succeeds'),
    idempotencyKey: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('Calls with the same key start only one job'),
    maxOutputBytes: z
      .number()
      .int()
      .min(1024)
      .optional()
      .describe('Maximum bytes of output; above it the job is stopped'),
    onEnd: z
      .array(endReceiver)
      .min(1)
      .max(5)
      .optional()
      .describe('At its end: notify (desktop), run:NAME (a command of the settings), or a URL'),
    ring: z.boolean().optional().describe('At the limit, drop the oldest output instead (Linux)'),
  })
  .superRefine((input, context) => {
    const wrong = (message: string) => context.addIssue({ code: 'custom', message });
    if ((input.command === undefined) === (input.argv === undefined))
      wrong('set exactly one of command and argv');
    if (input.ensure && input.name === undefined) wrong('ensure requires name');
    if (input.tty !== false && input.streams === 'split')
      wrong('tty cannot be combined with split streams');
    if (input.ring && input.streams === 'split') wrong('ring requires merged streams');
    if (input.tty !== false && typeof input.stdin === 'object')
      wrong('with tty, send text with send_input');
  });

const runOutput = jobView.extend({
  existing: z.boolean().optional().describe('The job already existed (ensure or idempotencyKey)'),
  output: z.looseObject({ text: z.string(), next: z.number() }).optional(),
  outputError: z.string().optional().describe('Why the output cannot be read'),
  hint: z.string().optional(),
});
export const runCommand = defineContract({
  name: 'run_command',
  input: runInput,
  output: runOutput,
});

export const bytesDefault = 8192;
const bytesLimit = 65_536;

export const outputModes = [
  'tail',
  'head_tail',
  'range',
  'since',
  'grep',
  'errors',
  'screen',
] as const;

const outputInput = z.strictObject({
  id: jobId,
  mode: z
    .enum(outputModes)
    .optional()
    .describe(
      'tail: the end (default). head_tail: both ends. since: everything after `from`. range: `from` to `to`, or `fromLine` to `toLine`. grep: lines with `pattern`. errors: lines that report errors, numbered. screen: what a tty shows now',
    ),
  maxBytes: z
    .number()
    .int()
    .min(200)
    .max(bytesLimit)
    .default(bytesDefault)
    .describe('Maximum bytes of text, 200 to 65,536'),
  from: z.number().int().min(0).optional().describe('Cursor: byte offset, or `next` of a response'),
  to: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('End of the range; for tail and errors: only output before this byte'),
  fromLine: z.number().int().min(1).optional().describe('First line of a range'),
  toLine: z.number().int().min(1).optional().describe('Last line of a range'),
  pattern: z.string().min(1).max(1000).optional().describe('For grep: plain text unless regex'),
  regex: z.boolean().default(false).describe('`pattern` is an RE2 expression'),
  ignoreCase: z.boolean().default(false).describe('For grep'),
  context: z
    .number()
    .int()
    .min(0)
    .max(20)
    .default(0)
    .describe('For grep: lines around each match, up to 20'),
  countOnly: z.boolean().default(false).describe('For grep: only count the matches'),
  stream: z
    .enum(['stdout', 'stderr'])
    .optional()
    .describe('One stream of a job with split streams'),
  raw: z.boolean().default(false).describe('Exactly as printed'),
  attempt: z.number().int().min(1).optional().describe('Number of an earlier attempt'),
  countLines: z
    .boolean()
    .default(false)
    .describe('For tail, range and since: also return the number of the first line shown'),
  cursor: z.string().max(40).optional().describe('For following: continue after this event'),
  once: z.boolean().default(false).describe('For following: stop at the current end'),
  lossless: z
    .boolean()
    .default(false)
    .describe('For following: never skip output, even if the job prints fast; with raw as base64'),
});

const streamPart = z.object({
  stream: z.string(),
  from: z.number(),
  next: z.number(),
  size: z.number(),
});

const outputResponse = z.object({
  id: z.string(),
  status: z.enum(statuses),
  exitCode: z.number().nullable(),
  signal: z.string().nullable(),
  mode: z.enum(outputModes),
  text: z.string(),
  from: z.number().describe('First byte shown'),
  next: z.number().describe('Cursor to continue from'),
  size: z.number().describe('Total output size in bytes'),
  line: z.number().optional().describe('With countLines: number of the first line shown'),
  matches: z.number().optional(),
  omitted: omitted.optional(),
  streams: z
    .array(streamPart)
    .optional()
    .describe('Split jobs: the order between streams is unknown'),
  screenCursor: z.object({ row: z.number(), col: z.number() }).optional(),
});

export const readOutput = defineContract({
  name: 'read_output',
  input: outputInput,
  output: outputResponse,
});

const maxInputBytes = 65_536;

/** Keys that have a name. ctrl and a letter is `ctrl-a`. */
export const keyNames = [
  'enter',
  'tab',
  'escape',
  'backspace',
  'space',
  'up',
  'down',
  'right',
  'left',
  'home',
  'end',
  'page-up',
  'page-down',
  'delete',
  'ctrl-backslash',
] as const;
const keyPattern = new RegExp(`^(${keyNames.join('|')}|ctrl-[a-z])$`);
const keyList = `${keyNames.join(', ')}, ctrl-a … ctrl-z`;

export const sendInput = defineContract({
  name: 'send_input',
  input: z.strictObject({
    id: jobId,
    text: z
      .string()
      .max(maxInputBytes)
      .optional()
      .describe('Typed exactly as given, without Enter'),
    newline: z.boolean().default(false).describe('Press Enter after text'),
    keys: z
      .array(z.string().regex(keyPattern, `not one of ${keyList}`))
      .max(100)
      .optional()
      .describe(`Keys after text: ${keyList}`),
    eof: z.boolean().default(false).describe('Close the input after text (like ctrl-d)'),
    waitMs: waitField('Longest wait for output to go quiet').default(2000),
    maxBytes: z
      .number()
      .int()
      .min(200)
      .max(65_536)
      .default(8192)
      .describe('Most bytes of output to return'),
  }),
  output: z.object({
    id: z.string(),
    status: z.string(),
    exitCode: z.number().nullable(),
    signal: z.string().nullable(),
    sent: z.number().describe('Bytes accepted'),
    text: z.string().describe('What was printed afterwards'),
    next: z.number(),
    omitted: omitted.optional(),
    hint: z.string().optional(),
  }),
});

export const resizeTerminal = defineContract({
  name: 'resize_terminal',
  input: terminalSize.extend({ id: jobId }),
  output: z.object({ id: z.string(), cols: z.number(), rows: z.number() }),
});
