// Guard rails, not a sandbox: which folders and commands are accepted at submit, and which environment names never
// reach a job. It fails closed: settings it does not understand stop the start, and a line it cannot take apart is
// refused wherever a rule would have had to judge it.
import { realpathSync } from 'node:fs';
import { relative, isAbsolute } from 'node:path';
import { RE2JS } from 're2js';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { programsOf, type Word } from './shell-words.ts';

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
    if ('why' in parsed) throw notJudged(parsed.why);
    for (const { words, unclear } of parsed.commands) {
      const line = words.map(({ text }) => text).join(' ');
      const denied = this.deny.find((one) => one.mayMatch(words));
      if (denied) throw refused(`\`${line}\` is denied by the rule ${denied.text}.`);
      const allowed = this.allow?.some((one) => one.matches(words)) ?? false;
      // A rule that names a runner allows what it runs; no rule can deny that.
      if (unclear !== undefined && !(allowed && this.deny.length === 0)) throw notJudged(unclear);
      if (this.allow && !allowed)
        throw refused(`\`${line}\` is matched by no rule of command.policy.allow.`);
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
  /** Whatever the shell makes of words that are not fixed. */
  matches(words: readonly Word[]): boolean;
  /** With something that the shell may make of them. */
  mayMatch(words: readonly Word[]): boolean;
}

function compileRule(text: string): Rule {
  if (text.startsWith('/')) {
    const expression = RE2JS.compile(text.slice(1, -1));
    const matches = (words: readonly Word[]) =>
      expression.test(words.map((word) => word.text).join(' '));
    const mayMatch = (words: readonly Word[]) =>
      matches(words) || words.some((word) => !word.fixed);
    return { text, matches, mayMatch };
  }
  const wanted = text.trim().split(/\s+/);
  const isWanted = (present: string, i: number) => {
    const word = wanted[i]!;
    // `/usr/bin/git` is git for a rule without slashes.
    return i === 0 && !word.includes('/')
      ? present.slice(present.lastIndexOf('/') + 1) === word
      : present === word;
  };
  return {
    text: `\`${text}\``,
    matches: (words) =>
      wanted.every((_, i) => words[i]?.fixed === true && isWanted(words[i].text, i)),
    mayMatch: (words) => {
      // A word that is not fixed may become none or several: what comes after it stands anywhere.
      const open = words.findIndex((word) => !word.fixed);
      const known = open < 0 ? words : words.slice(0, open);
      return (open < 0 ? wanted : wanted.slice(0, open)).every((_, i) =>
        isWanted(known[i]?.text ?? '', i),
      );
    },
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

const notJudged = (why: string): AppError =>
  refused(
    `The command cannot be taken apart for the rules (${why}).`,
    'Give it as argv, or as a plainer line: the policy of this server judges every program in it.',
  );

function refused(message: string, hint?: string): AppError {
  return new AppError('policyRefused', message, {
    hint: hint ?? 'The owner of this server can change `command.policy` in its config.json.',
  });
}
