// The `command` section of config.json: limits and policy of the kind. Invalid settings prevent the server start.
import { z } from 'zod';
import { policySettings } from './policy.ts';

const mebibyte = 2 ** 20;

const namePattern = z
  .string()
  .regex(/^[\w*]+$/, 'must be a variable name; * matches any characters')
  .describe('Variable name; * matches any characters');

/** Name patterns of variables that usually hold secrets. */
const secretPatterns = [
  '*TOKEN',
  '*SECRET*',
  '*PASSWORD*',
  '*PASSWD*',
  '*PASSPHRASE*',
  '*_PASS',
  '*_PWD',
  '*APIKEY*',
  '*_KEY',
  '*API_KEY*',
  '*ACCESS_KEY*',
  '*PRIVATE_KEY*',
  '*_PAT',
  '*_JWT',
  '*_AUTH',
  'ERRAND_STORE',
];

export const environmentSettings = z
  .strictObject({
    inherit: z
      .boolean()
      .default(true)
      .describe(
        'Pass the environment of the calling program (errand mcp, errand run) to commands; false: pass only paths, language and tool folders of the server',
      ),
    withhold: z
      .array(namePattern)
      .default(secretPatterns)
      .describe('Variables that a command receives only if `secrets` names them'),
    pass: z
      .array(namePattern)
      .default(['*PUBLIC_KEY*'])
      .describe('Variables that a command receives even if `withhold` matches them'),
    maxBytes: z
      .number()
      .int()
      .min(1024)
      .default(4 * mebibyte)
      .describe('Maximum size of one caller environment; larger ones are refused'),
    maxVariables: z
      .number()
      .int()
      .min(1)
      .default(10_000)
      .describe('Maximum variables in one caller environment'),
    maxKept: z
      .number()
      .int()
      .min(1)
      .default(1000)
      .describe('Maximum distinct environments stored for queued jobs and retries'),
  })
  .prefault({});
export type EnvironmentSettings = z.infer<typeof environmentSettings>;

export const commandSettings = z
  .strictObject({
    shell: z
      .string()
      .default('auto')
      .describe('Shell for command lines; auto uses bash if available, otherwise sh'),
    maxJobs: z
      .number()
      .int()
      .min(1)
      .default(1000)
      .describe('Maximum concurrently running commands'),
    killGraceMs: z
      .number()
      .int()
      .min(0)
      .max(25_000)
      .default(5000)
      .describe('Time between SIGTERM and SIGKILL'),
    maxOutputBytes: z
      .number()
      .int()
      .min(1024)
      .default(1024 * mebibyte)
      .describe('Maximum output of one job; above it the job fails with outputLimit'),
    maxOutputTotalBytes: z
      .number()
      .int()
      .min(1024)
      .default(20 * 1024 * mebibyte)
      .describe(
        'Maximum output of all jobs together; above it new jobs are refused and the job that prints the most is stopped',
      ),
    checkMs: z
      .number()
      .int()
      .min(50)
      .default(2000)
      .describe('How often limits and statistics of running jobs are checked'),
    guardSeconds: z
      .number()
      .int()
      .min(1)
      .default(15)
      .describe('How often the guard checks whether a server runs'),
    staleSeconds: z
      .number()
      .int()
      .min(1)
      .default(20)
      .describe('A heartbeat older than this means that the server is dead'),
    terminal: z
      .enum(['auto', 'script', 'node-pty'])
      .default('auto')
      .describe('Helper program for jobs with a terminal'),
    safeEnvironment: z
      .boolean()
      .default(true)
      .describe('Disable pagers, editors and prompts unless the job has a terminal'),
    environment: environmentSettings,
    maskSecrets: z
      .boolean()
      .default(true)
      .describe(
        'MCP tools replace values in output that look like secrets with ***; files, the command line and HTTP keep the original',
      ),
    slowFactor: z
      .number()
      .min(1)
      .default(1.5)
      .describe(
        'A command that runs longer than this multiple of its usual time is slowerThanUsual',
      ),
    minSlowMs: z
      .number()
      .int()
      .min(0)
      .default(10_000)
      .describe('Minimum run time before a command can be slowerThanUsual'),
    policy: policySettings.prefault({}),
  })
  .prefault({});

export type CommandSettings = z.infer<typeof commandSettings>;
