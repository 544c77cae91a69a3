// The command line: a few commands written by hand, every other one made from the operation list of the server.
import { byName } from '../../runtime/by-name.ts';
import { AppError, callerError, errorKind } from '../../errors.ts';
import type { Answered, CatalogEntry } from './bridge.ts';
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
import { result } from './commands/result.ts';
import { show, wait } from './commands/show.ts';
import type { Command, CommandContext } from './command.ts';
import { callEach } from './each.ts';
import { helpBelow, nounHelp, overview } from './overview.ts';
import { followedLine, harmless, terminalWords, type Screen } from './print.ts';
import type { Program } from './program.ts';
import { awaited } from './progress.ts';
import { sayAnswer } from './answer.ts';
import { sourcesOf } from './sources.ts';
import {
  commandsBelow,
  findEntry,
  help,
  isAwaited,
  parseInput,
  spokenWords,
  usageError,
  type Common,
} from './words.ts';

const commands: Record<string, Command> = byName({
  run,
  logs,
  show,
  wait,
  result,
  serve,
  mcp: front,
  doctor,
  service,
  backup,
  restore,
  migrate,
  store,
  completion,
});

export async function runCli(argv: readonly string[], program: Program): Promise<number> {
  const screen = screenOf(program);
  const json = argv.includes('--json') && !isAfterDashes(argv, '--json');
  try {
    return await dispatch(argv, program, screen);
  } catch (error) {
    const body = callerError(error);
    if (!(error instanceof AppError)) program.log.error('the command failed', { error });
    if (json) screen.out(`${JSON.stringify({ error: body })}\n`);
    else {
      screen.err(`errand: ${harmless(body.message)}\n${terminalWords(body.hint)}\n`);
    }
    return errorKind(body.code).exit;
  }
}

async function dispatch(
  argv: readonly string[],
  program: Program,
  screen: Screen,
): Promise<number> {
  const [word, ...args] = argv;
  if (word === '--version' || word === '-v' || word === 'version') {
    screen.out(`${program.version}\n`);
    return 0;
  }
  const context: CommandContext = {
    program,
    screen,
    commands,
    client: () => clientOf(program),
  };
  if (word === 'help' && args.length > 0) return dispatch([...args, '--help'], program, screen);
  if (word === undefined || word === 'help' || word === '--help' || word === '-h')
    return overview(context);
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command && asksHelp(args)) {
    screen.out(command.help(word));
    return 0;
  }
  if (command) return command.run(context, word, args);
  return generated(argv, context);
}

async function generated(argv: readonly string[], context: CommandContext): Promise<number> {
  const server = await context.client();
  const { operations } = await server.catalog();
  const entry = findEntry(operations, argv);
  if (!entry) {
    const verbs = asksHelp(argv) ? commandsBelow(operations, argv) : [];
    if (verbs.length === 0) throw unknownCommand(operations, argv);
    context.screen.out(nounHelp(verbs, argv));
    return 0;
  }
  try {
    return await perform(context, server, entry, { argv, operations });
  } catch (error) {
    throw usageError(error, entry, operations);
  }
}

async function perform(
  context: CommandContext,
  server: Client,
  entry: CatalogEntry,
  { argv, operations }: { argv: readonly string[]; operations: readonly CatalogEntry[] },
): Promise<number> {
  const { screen, program } = context;
  const sources = sourcesOf(program.stdin);
  const { inputs, common } = await parseInput(entry, argv, program.clock.now(), sources);
  if (common.help) {
    screen.out(help(entry, operations) + helpBelow(operations, entry));
    return 0;
  }
  const [given] = inputs;
  const input = { ...entry.cli!.preset, ...given };
  if (inputs.length > 1) {
    return callEach({ screen, server, entry, operations }, inputs, common.json);
  }
  if (common.follow) {
    for await (const { data } of server.follow(entry.name, input))
      screen.out(common.json ? `${JSON.stringify(data)}\n` : followedLine(entry, data));
    return 0;
  }
  const answer = await answerOf(context, server, entry, { input, common });
  if (typeof answer === 'number') return answer;
  return sayAnswer(screen, answer, { json: common.json, operations }, entry);
}

/** A command that starts a job is awaited where its answer is what was asked for, or the person says so. */
function answerOf(
  context: CommandContext,
  server: Client,
  entry: CatalogEntry,
  { input, common }: { input: Record<string, unknown>; common: Common },
): Promise<Answered | number> {
  const isTimed = isAwaited(entry) && input.waitMs === undefined;
  const call = () => server.call(entry.name, isTimed ? { ...input, waitMs: 0 } : input);
  return (common.wait ?? isTimed) ? awaited(context, call, common.json) : call();
}

function unknownCommand(operations: readonly CatalogEntry[], argv: readonly string[]): AppError {
  const near = commandsBelow(operations, argv.slice(0, 1)).map(
    ({ cli }) => `errand ${cli!.words.join(' ')}`,
  );
  const typed = spokenWords(argv).join(' ');
  return new AppError('invalidInput', `There is no command \`errand ${typed.slice(0, 80)}\`.`, {
    hint:
      near.length > 0
        ? `These begin like it: ${near.join(', ')}.`
        : '`errand help` lists all commands.',
  });
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
    // A terminal that does not say how wide it is says 0.
    columns: seen ? stdout.columns || 100 : undefined,
  };
}

function asksHelp(args: readonly string[]): boolean {
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  return own.includes('--help') || own.includes('-h');
}

function isAfterDashes(argv: readonly string[], flag: string): boolean {
  const dashes = argv.indexOf('--');
  return dashes >= 0 && argv.indexOf(flag) > dashes;
}
