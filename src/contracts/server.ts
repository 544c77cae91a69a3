// Contracts of the operations on the server itself.
import { z } from 'zod';
import { defineContract } from '../contract.ts';

export const stopServer = defineContract({
  name: 'stop_server',
  input: z.object({ ifIdle: z.boolean().optional() }),
  output: z.object({ stopping: z.boolean() }),
});

export const backupStore = defineContract({
  name: 'backup_store',
  input: z.object({
    path: z.string().min(1).max(4000).describe('Absolute path of the file'),
    withOutput: z.boolean().optional().describe('Also copy job output'),
  }),
  output: z.object({
    path: z.string(),
    bytes: z.number(),
    outputFiles: z.number().optional(),
    outputBytes: z.number().optional(),
  }),
});
