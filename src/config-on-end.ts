// Settings: the commands that callers may start at the end of a job.
import { z } from 'zod';

const endCommand = z.strictObject({
  argv: z.array(z.string().min(1)).min(1).describe('Program and arguments; no shell'),
  cwd: z.string().optional().describe('Folder; default: that of the ended job'),
  timeoutMs: z.number().int().min(1).optional().describe('Maximum run time'),
  secrets: z.array(z.string()).default([]).describe('Names of secrets in home/env that it gets'),
});

export const onEndSettings = z.strictObject({
  commands: z
    .record(z.string().regex(/^[\w.-]{1,60}$/), endCommand)
    .default({})
    .describe('Commands that callers may start at the end of a job, as run:NAME'),
});
