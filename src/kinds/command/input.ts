// What a command job is asked to do: its stored input, and the schemas of what a caller may say about it.
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
export interface CommandInput {
  /** This, or `argv`. */
  command?: string;
  argv?: string[];
  cwd: string;
  callerEnv: Record<string, string>;
  env: Record<string, string>;
  secrets: string[];
  stdin: 'none' | 'open' | { text: string };
  tty?: z.infer<typeof terminalSize>;
  streams: 'merged' | 'split';
  ready?: z.infer<typeof readyCheck>;
  outputBytesMax?: number;
  ring?: boolean;
}
