// Guard rails, not a sandbox: which folders and commands are accepted at submit, and which environment names never
// reach a job. It fails closed: settings it does not understand stop the start, and a line it cannot take apart is
// refused wherever a rule would have had to judge it.
import { realpathSync } from 'node:fs';
import { relative, isAbsolute } from 'node:path';
import { RE2JS } from 're2js';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { programsOf } from './shell-words.ts';

const rule = z
  .string()
  .min(1)
  .superRefine((text, context) => {
    if (!text.startsWith('/')) return;
    const problem = ruleProblem(text);
    if (problem) context.addIssue({ code: 'custom', message: problem });
  })
  .describe('Words a command begins with (`git push`), or an RE2 expression between slashes');

export const policySettings = z.strictObject({
  cwds: z
    .array(z.string().startsWith('/', 'must be an absolute path'))
    .optional()
    .describe('Folders (and what is below them) commands may run in; left out: any'),
  allow: z.array(rule).optional().describe('Only commands that match one of these'),
  deny: z.array(rule).default([]).describe('Never commands that match one of these'),
  processesMax: z
    .number()
    .int()
    .min(10)
    .optional()
    .describe(
      'Processes of this user above which a job cannot fork; refused where nothing enforces it',
    ),
  envDeny: z
    .array(z.string().regex(/^[A-Za-z_]\w*\*?$/, 'a name, or the beginning of names and *'))
    .default([])
    .describe('Names that are never passed to a job; a last * means every name beginning so'),
});

export type PolicySettings = z.infer<typeof policySettings>;

export interface PolicyQuestion {
  /** A shell line, or words. */
  command: string | readonly string[];
  cwd: string;
}

export class Policy {
  private readonly settings: PolicySettings;
  private readonly allow: Rule[] | undefined;
  private readonly deny: Rule[];

  constructor(settings: PolicySettings) {
    this.settings = settings;
    this.allow = settings.allow?.map(compileRule);
    this.deny = settings.deny.map(compileRule);
    if (settings.processesMax !== undefined) refuseUnboundLimit();
  }

  /** The payload's words under the limits the system enforces for them. */
  limited(argv: readonly string[]): readonly string[] {
    const { processesMax } = this.settings;
    if (processesMax === undefined) return argv;
    // The one limit has two letters: bash says -u, dash says -p.
    const line = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" || exit 126; exec "$@"';
    return ['/bin/sh', '-c', line, String(processesMax), ...argv];
  }

  /** Throws policyRefused with the rule that says no. */
  check(question: PolicyQuestion): void {
    this.checkCwd(question.cwd);
    if (!this.allow && this.deny.length === 0) return;
    const parsed = programsOf(question.command);
    if (!parsed.complete) {
      throw refused(
        `The command cannot be taken apart for the rules (${parsed.why}).`,
        'Give it as argv, or as a plainer line: the policy of this server judges every program in it.',
      );
    }
    for (const words of parsed.programs) {
      const denied = this.deny.find((one) => one.matches(words));
      if (denied) throw refused(`\`${words.join(' ')}\` is denied by the rule ${denied.text}.`);
      if (this.allow && !this.allow.some((one) => one.matches(words)))
        throw refused(`\`${words.join(' ')}\` is matched by no rule of command.policy.allow.`);
    }
  }

  passes(name: string): boolean {
    return !this.settings.envDeny.some((denied) =>
      denied.endsWith('*') ? name.startsWith(denied.slice(0, -1)) : name === denied,
    );
  }

  private checkCwd(cwd: string): void {
    const { cwds } = this.settings;
    if (!cwds) return;
    const real = realPath(cwd);
    if (real && cwds.some((folder) => isWithin(realPath(folder) ?? folder, real))) return;
    throw refused(`${cwd} is not below a folder of command.policy.cwds.`);
  }
}

interface Rule {
  text: string;
  matches(words: readonly string[]): boolean;
}

function compileRule(text: string): Rule {
  if (text.startsWith('/')) {
    const expression = RE2JS.compile(text.slice(1, -1));
    return { text, matches: (words) => expression.test(words.join(' ')) };
  }
  const wanted = text.trim().split(/\s+/);
  return {
    text: `\`${text}\``,
    // `/usr/bin/git` is git for a rule without slashes.
    matches: (words) =>
      wanted.every((word, i) => {
        const present = words[i] ?? '';
        const plain =
          i === 0 && !word.includes('/') ? present.slice(present.lastIndexOf('/') + 1) : present;
        return plain === word;
      }),
  };
}

function ruleProblem(text: string): string | undefined {
  if (text.length < 3 || !text.endsWith('/')) return 'an expression ends with a slash, too';
  try {
    RE2JS.compile(text.slice(1, -1));
    return undefined;
  } catch (error) {
    return `no valid RE2 expression: ${(error as Error).message}`;
  }
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '' || (!way.startsWith('..') && !isAbsolute(way));
}

/** The kernel does not count root's processes: a limit that does not bind must not be believed in. */
function refuseUnboundLimit(): void {
  if (process.getuid?.() !== 0) return;
  throw new AppError(
    'invalidInput',
    'command.policy.processesMax does not bind here: root may fork without limit.',
    {
      hint: 'Run the server as another user, or limit its cgroup or container (pids.max) and leave this setting out.',
    },
  );
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function refused(message: string, hint?: string): AppError {
  return new AppError('policyRefused', message, {
    hint: hint ?? 'The owner of this server can change `command.policy` in its config.json.',
  });
}
