// Guard rails, not a sandbox: which folders and commands are accepted at submission, and which variables never reach a job.
// The policy fails closed: invalid settings prevent the server start, and a command that cannot be parsed is refused if any
// rule exists.
import { realpathSync } from 'node:fs';
import { relative, isAbsolute } from 'node:path';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { re2js } from '../../runtime/packages.ts';
import { parsePrograms, type Word } from './shell-words.ts';

const rule = z
  .string()
  .min(1)
  .superRefine((text, context) => {
    if (!text.startsWith('/')) return;
    const problem = ruleProblem(text);
    if (problem) context.addIssue({ code: 'custom', message: problem });
  })
  .describe('First words of a command (`git push`), or an RE2 expression between slashes');

export const policySettings = z.strictObject({
  cwds: z
    .array(z.string().startsWith('/', 'must be an absolute path'))
    .optional()
    .describe('Folders in which commands may run, including subfolders; default: any'),
  allow: z.array(rule).optional().describe('Accept only commands that match one of these'),
  deny: z.array(rule).default([]).describe('Refuse commands that match one of these'),
  maxProcesses: z
    .number()
    .int()
    .min(10)
    .optional()
    .describe(
      'Jobs cannot fork when this user has more processes than this; refused where the kernel does not enforce it',
    ),
  envDeny: z
    .array(z.string().regex(/^[A-Za-z_]\w*\*?$/, 'must be a name, or a name prefix followed by *'))
    .default([])
    .describe('Variables that jobs never receive; a trailing * matches any name with that prefix'),
});

type PolicySettings = z.infer<typeof policySettings>;

interface PolicyRequest {
  /** A shell command line, or a program with arguments. */
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
    if (settings.maxProcesses !== undefined) rejectIneffectiveLimit();
  }

  /** The payload's arguments, wrapped so that the system enforces the limits. */
  withLimits(argv: readonly string[]): readonly string[] {
    const { maxProcesses } = this.settings;
    if (maxProcesses === undefined) return argv;
    // The same limit has two options: -u in bash, -p in dash.
    const line = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" || exit 126; exec "$@"';
    return ['/bin/sh', '-c', line, String(maxProcesses), ...argv];
  }

  /** Throws policyRefused with the rule that refuses the command. */
  check(request: PolicyRequest): void {
    this.checkCwd(request.cwd);
    if (!this.allow && this.deny.length === 0) return;
    const parsed = parsePrograms(request.command);
    if ('why' in parsed) throw unparsable(parsed.why);
    for (const { words, unclear } of parsed.commands) {
      const line = words.map(({ text }) => text).join(' ');
      const denied = this.deny.find((one) => one.mayMatch(words));
      if (denied) throw refusal(`\`${line}\` is denied by the rule ${denied.text}.`);
      const allowed = this.allow?.some((one) => one.matches(words)) ?? false;
      // An `allow` rule for a program that runs other programs allows them as well; a `deny` rule cannot be checked for them.
      if (unclear !== undefined && !(allowed && this.deny.length === 0)) throw unparsable(unclear);
      if (this.allow && !allowed)
        throw refusal(`\`${line}\` does not match any rule in command.policy.allow.`);
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
    throw refusal(`${cwd} is not inside any folder in command.policy.cwds.`);
  }
}

interface Rule {
  text: string;
  /** True if the rule matches for every possible expansion of the words. */
  matches(words: readonly Word[]): boolean;
  /** True if the rule matches for some possible expansion of the words. */
  mayMatch(words: readonly Word[]): boolean;
}

function compileRule(text: string): Rule {
  if (text.startsWith('/')) {
    const expression = re2js().RE2JS.compile(text.slice(1, -1));
    const matches = (words: readonly Word[]) =>
      expression.test(words.map((word) => word.text).join(' '));
    const mayMatch = (words: readonly Word[]) =>
      matches(words) || words.some((word) => !word.fixed);
    return { text, matches, mayMatch };
  }
  const wanted = text.trim().split(/\s+/);
  const matchesWord = (present: string, i: number) => {
    const word = wanted[i]!;
    // A rule without slashes also matches a path: `/usr/bin/git` is `git`.
    return i === 0 && !word.includes('/')
      ? present.slice(present.lastIndexOf('/') + 1) === word
      : present === word;
  };
  return {
    text: `\`${text}\``,
    matches: (words) =>
      wanted.every((_, i) => words[i]?.fixed === true && matchesWord(words[i].text, i)),
    mayMatch: (words) => {
      // An expandable word may become zero or several words, so the position of later words is unknown.
      const open = words.findIndex((word) => !word.fixed);
      const known = open < 0 ? words : words.slice(0, open);
      return (open < 0 ? wanted : wanted.slice(0, open)).every((_, i) =>
        matchesWord(known[i]?.text ?? '', i),
      );
    },
  };
}

function ruleProblem(text: string): string | undefined {
  if (text.length < 3 || !text.endsWith('/')) return 'an expression must end with a slash';
  try {
    re2js().RE2JS.compile(text.slice(1, -1));
    return undefined;
  } catch (error) {
    return `not a valid RE2 expression: ${(error as Error).message}`;
  }
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '' || (!way.startsWith('..') && !isAbsolute(way));
}

/** The kernel does not limit root's processes. A setting without effect must not give false confidence. */
function rejectIneffectiveLimit(): void {
  if (process.getuid?.() !== 0) return;
  throw new AppError(
    'invalidInput',
    'command.policy.maxProcesses has no effect here: root may fork without limit.',
    {
      hint: 'Run the server as another user, or limit its cgroup or container (pids.max) and remove this setting.',
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

const unparsable = (why: string): AppError =>
  refusal(
    `The command cannot be parsed for the policy rules (${why}).`,
    'Use argv or a simpler command line. The policy of this server checks every program in it.',
  );

function refusal(message: string, hint?: string): AppError {
  return new AppError('policyRefused', message, {
    hint: hint ?? 'The owner of this server can change `command.policy` in config.json.',
  });
}
