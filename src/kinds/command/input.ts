// What a command job is asked to do: the schema of its stored input, and what the caller may say about it.
import { z } from 'zod';

export const readyCheck = z
  .strictObject({
    text: z.string().min(1).max(500).optional().describe('This text appears in the output'),
    port: z.number().int().min(1).max(65_535).optional().describe('It listens on this TCP port'),
    http: z
      .url({ protocol: /^https?$/ })
      .max(2000)
      .optional()
      .describe('This URL on this machine answers 2xx'),
  })
  .refine((check) => Object.keys(check).length > 0, 'name text, port or http');

export const terminalSize = z.strictObject({
  cols: z.number().int().min(2).max(1000).default(120),
  rows: z.number().int().min(2).max(1000).default(40),
});

export const environmentName = z.string().regex(/^[A-Za-z_]\w{0,199}$/, 'not a variable name');
export const environmentValues = z.record(
  environmentName,
  z
    .string()
    .max(131_000)
    .regex(/^[^\0]*$/, 'must not hold a NUL'),
);

const word = z
  .string()
  .max(131_000)
  .regex(/^[^\0]*$/, 'must not hold a NUL');
export const commandLine = word.min(1);
export const commandWords = z.array(word).min(1).max(5000);

/** `job.input` of kind command. Nothing secret is in here: secrets are names. */
export const commandInput = z
  .strictObject({
    command: commandLine.optional(),
    argv: commandWords.optional(),
    cwd: z.string(),
    callerEnv: environmentValues,
    env: environmentValues,
    secrets: z.array(environmentName),
    stdin: z.union([z.literal('none'), z.literal('open'), z.strictObject({ text: z.string() })]),
    tty: terminalSize.optional(),
    streams: z.enum(['merged', 'split']),
    ready: readyCheck.optional(),
    outputBytesMax: z.number().int().optional(),
    ring: z.boolean().optional(),
  })
  .refine((input) => (input.command === undefined) !== (input.argv === undefined), {
    message: 'exactly one of command and argv',
  });

export type CommandInput = z.infer<typeof commandInput>;
