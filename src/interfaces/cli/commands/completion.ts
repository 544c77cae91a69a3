// `errand completion bash|zsh|fish`: prints a completion script, which calls `errand completion words` for candidates.
import { byName } from '../../../runtime/by-name.ts';
import { AppError } from '../../../errors.ts';
import type { CatalogEntry } from '../operations-route.ts';
import { command, type CommandContext } from '../command.ts';
import type { Schema } from '../schema.ts';
import { findEntry, flagName } from '../operation-command.ts';
import type { listJobs } from '../../../contracts/jobs.ts';
import type { Client } from '../client.ts';

const scripts: Record<string, string> = byName({
  bash: `_errand() { COMPREPLY=($(compgen -W "$(errand completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}")); }
complete -F _errand errand
`,
  zsh: `#compdef errand
_errand() { compadd -- \${(f)"$(errand completion words -- "\${words[@]:1:$((CURRENT-2))}" 2>/dev/null | tr ' ' '\\n')"} }
compdef _errand errand
`,
  fish: `complete -c errand -f -a '(errand completion words -- (commandline -opc)[2..] 2>/dev/null | string split " ")'
`,
});

export const completion = command({
  summary: 'shell completion for bash, zsh, fish',
  about: 'Prints a script that completes commands, flags, flag values and job ids.',
  examples: ['source <(errand completion bash)'],
  args: 'bash|zsh|fish',
  flags: {},
  async run({ client, screen, commands }, { positionals: [what, ...before] }) {
    const script = what === undefined ? undefined : scripts[what];
    if (script) {
      screen.out(script);
      return 0;
    }
    if (what !== 'words') {
      throw new AppError('invalidInput', 'The shell is required: bash, zsh or fish.', {
        hint: 'Example: source <(errand completion bash)',
      });
    }
    const { operations } = await (await client()).catalog();
    const words = operations.flatMap(({ cli }) => (cli ? [cli.words] : []));
    const next = words
      .filter(
        (parts) => parts.length > before.length && before.every((word, i) => parts[i] === word),
      )
      .map((parts) => parts[before.length]!);
    const first = before.length === 0 ? [...Object.keys(commands), 'help'] : [];
    const { options, acceptsJobs } = await completionsAfter(before, commands, operations);
    const jobs = acceptsJobs ? await recentIds(client) : [];
    screen.out(`${[...new Set([...first, ...next, ...options, ...jobs])].join(' ')}\n`);
    return 0;
  },
});

interface Options {
  options: readonly string[];
  acceptsJobs: boolean;
}

/** Returns the candidates for the built-in or generated command that `before` names. */
async function completionsAfter(
  before: readonly string[],
  commands: CommandContext['commands'],
  operations: readonly CatalogEntry[],
): Promise<Options> {
  const load = before[0] !== undefined && Object.hasOwn(commands, before[0]) && commands[before[0]];
  if (load) {
    const { flags, acceptsJobs } = await load();
    return { options: flags, acceptsJobs };
  }
  const entry = findEntry(operations, before);
  if (!entry) return { options: [], acceptsJobs: false };
  const { properties = {} } = entry.input as Schema;
  const asked = Object.entries(properties).find(
    ([name]) => before.at(-1) === `--${flagName(name)}`,
  );
  const values = asked && (asked[1].enum ?? asked[1].items?.enum);
  if (values) return { options: values.map(String), acceptsJobs: false };
  const args = entry.cli!.args ?? [];
  const flags = Object.keys(properties)
    .filter((name) => !args.includes(name))
    .map((name) => `--${flagName(name)}`);
  return {
    options: [...flags, '--json', ...(entry.streams ? ['--follow'] : [])],
    acceptsJobs: args.some((name) => properties[name]?.description?.startsWith('Job id') === true),
  };
}

async function recentIds(client: () => Promise<Client>): Promise<string[]> {
  const { output } = await (await client()).call<typeof listJobs>('list_jobs', { limit: 20 });
  return output.jobs.map(({ id }) => id);
}
