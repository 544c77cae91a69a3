// The section `command` of config.json: every limit of the kind, and its policy. A wrong one stops the start.
import { z } from 'zod';
import { policySettings } from './policy.ts';

const mebibyte = 2 ** 20;

export const commandSettings = z
  .strictObject({
    shell: z
      .string()
      .default('auto')
      .describe('Shell for command lines; auto takes bash where there is one, else sh'),
    jobsMax: z.number().int().min(1).default(1000).describe('Commands that run at once'),
    killGraceMs: z
      .number()
      .int()
      .min(0)
      .max(25_000)
      .default(5000)
      .describe('Between the polite signal and SIGKILL'),
    outputBytesMax: z
      .number()
      .int()
      .min(1024)
      .default(1024 * mebibyte)
      .describe('Output of one job; above it the job ends as failed/outputLimit'),
    outputTotalBytesMax: z
      .number()
      .int()
      .min(1024)
      .default(20 * 1024 * mebibyte)
      .describe(
        'Output of all jobs together; above it nothing new starts and whoever prints most is ended',
      ),
    checkMs: z
      .number()
      .int()
      .min(50)
      .default(2000)
      .describe('How often caps and facts of running jobs are looked at'),
    guardSeconds: z
      .number()
      .int()
      .min(1)
      .default(15)
      .describe('How often the guard looks whether the server lives'),
    staleSeconds: z
      .number()
      .int()
      .min(1)
      .default(20)
      .describe('A heartbeat older than this is a dead server’s'),
    terminal: z
      .enum(['auto', 'script', 'node-pty'])
      .default('auto')
      .describe('Helper program for jobs with a terminal'),
    safeEnvironment: z
      .boolean()
      .default(true)
      .describe('No pagers, editors and prompts unless the job asks for a terminal'),
    slowFactor: z
      .number()
      .min(1)
      .default(1.5)
      .describe('Over this multiple of its usual time a running command is slowerThanUsual'),
    slowMsMin: z
      .number()
      .int()
      .min(0)
      .default(10_000)
      .describe('Before this nothing is called slower than usual'),
    policy: policySettings.prefault({}),
  })
  .prefault({});

export type CommandSettings = z.infer<typeof commandSettings>;
