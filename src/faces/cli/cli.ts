// The command line: a few commands written by hand, every other one made from the operation list of the server.
import { AppError, errorBody, errorKind } from '../../errors.ts';
import { Client, type Target } from './client.ts';
import { connectServer } from './connect.ts';
import { backup, restore } from './commands/backup.ts';
import { completion } from './commands/completion.ts';
import { doctor } from './commands/doctor.ts';
import { front } from './commands/front.ts';
import { logs } from './commands/logs.ts';
import { run } from './commands/run.ts';
import { serve } from './commands/serve.ts';
import { service } from './commands/service.ts';
import { migrate, store } from './commands/store.ts';
import { show, wait } from './commands/show.ts';
import { printOutput, type Screen } from './print.ts';
import type { Program } from './program.ts';
import { findEntry, help, parseInput } from './words.ts';

export interface CommandContext {
  program: Program;
  screen: Screen;
  /** Words after the command's own name. */
  args: string[];
  /** A client of the home's server (started if need be), or of ERRAND_URL. */
  client(): Promise<Client>;
}

/** Answers the exit code. */
export type Command = (context: CommandContext) => Promise<number>;

const commands: Record<string, { run: Command; summary: string }> = {
  serve: { run: serve, summary: 'run the server in the foreground' },
  mcp: { run: front, summary: 'the MCP server an agent launches (stdio)' },
  run: { run, summary: 'run a command as a job and follow it' },
  logs: { run: logs, summary: 'what a job printed; -f follows' },
  show: { run: show, summary: 'one job' },
  wait: { run: wait, summary: 'wait until jobs are over' },
  doctor: { run: doctor, summary: 'look for reasons when something does not work' },
  backup: { run: backup, summary: 'copy the database while the server runs' },
  restore: { run: restore, summary: 'put a backup back' },
  migrate: { run: migrate, summary: 'bring a PostgreSQL store up to date' },
  store: { run: store, summary: 'move everything to another store (store copy)' },
  service: { run: service, summary: 'start the server with your login (systemd, launchd)' },
  completion: { run: completion, summary: 'shell completion for bash, zsh, fish' },
};

export async function runCli(argv: readonly string[], program: Program): Promise<number> {
  const screen = screenOf(program);
  const json = argv.includes('--json') && !isAfterDashes(argv, '--json');
  try {
    return await dispatch(argv, program, screen);
  } catch (error) {
    const body = errorBody(error);
    if (!(error instanceof AppError)) program.log.error('the command failed', { error });
    if (json) screen.out(`${JSON.stringify({ error: body })}\n`);
    else screen.err(`errand: ${body.message}${body.hint ? `\n${body.hint}` : ''}\n`);
    return errorKind(body.code).exit;
  }
}

async function dispatch(
  argv: readonly string[],
  program: Program,
  screen: Screen,
): Promise<number> {
  const [word] = argv;
  if (word === '--version' || word === '-v' || word === 'version') {
    screen.out(`${program.version}\n`);
    return 0;
  }
  const context: CommandContext = {
    program,
    screen,
    args: argv.slice(1),
    client: () => clientOf(program),
  };
  if (word === undefined || word === 'help' || word === '--help' || word === '-h')
    return overview(context);
  const command = commands[word];
  if (command) return command.run(context);
  return generated(argv, context);
}

async function generated(
  argv: readonly string[],
  { screen, client }: CommandContext,
): Promise<number> {
  const server = await client();
  const { operations } = await server.catalog();
  const entry = findEntry(operations, argv);
  if (!entry) {
    const near = operations
      .filter(({ cli }) => cli?.words[0] === argv[0])
      .map(({ cli }) => `errand ${cli!.words.join(' ')}`);
    throw new AppError(
      'invalidInput',
      `There is no command \`errand ${argv.join(' ').slice(0, 80)}\`.`,
      {
        hint:
          near.length > 0
            ? `Did you mean ${near.join(', ')}?`
            : '`errand help` lists all commands.',
      },
    );
  }
  const { input, common } = parseInput(entry, argv);
  if (common.help) {
    screen.out(help(entry));
    return 0;
  }
  const { output, text } = await server.call(entry.name, input);
  if (common.json) screen.out(`${JSON.stringify(output)}\n`);
  else printOutput(screen, entry, output, text);
  return 0;
}

async function overview({ screen, client, program }: CommandContext): Promise<number> {
  const rows = Object.entries(commands).map(([name, { summary }]) => [name, summary]);
  try {
    const { operations } = await (await client()).catalog();
    for (const { cli, title } of operations) {
      if (cli && !cli.custom) rows.push([cli.words.join(' '), title.toLowerCase()]);
    }
  } catch (error) {
    program.log.debug('no server for the list of commands', { error });
  }
  const width = Math.max(...rows.map(([name]) => name!.length));
  const lines = rows.map(([name, summary]) => `  ${name!.padEnd(width)}  ${summary}`);
  screen.out(
    `errand ${program.version}: jobs for AI agents\n\n${lines.join('\n')}\n\nerrand <command> --help says more.\n`,
  );
  return 0;
}

async function clientOf(program: Program): Promise<Client> {
  const { env } = program;
  const origin = { cwd: process.cwd(), env: plainEnv(env) };
  const target: Target = env.ERRAND_URL
    ? { url: env.ERRAND_URL, key: env.ERRAND_KEY }
    : { socketPath: await connectServer(program) };
  return new Client(target, origin);
}

export function plainEnv(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

function screenOf(program: Program): Screen {
  const { stdout, stderr, env } = program;
  const seen = stdout.isTTY === true && env.NO_COLOR === undefined;
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    columns: seen ? (stdout.columns ?? 100) : undefined,
  };
}

function isAfterDashes(argv: readonly string[], flag: string): boolean {
  const dashes = argv.indexOf('--');
  return dashes >= 0 && argv.indexOf(flag) > dashes;
}
