// The command line: a few commands written by hand, every other one made from the operation list of the server.
import { byName } from '../../runtime/by-name.ts';
import { AppError, callerError, errorKind } from '../../errors.ts';
import { aliases } from './aliases.ts';
import { homeFlag } from './args.ts';
import type { Answered, CatalogEntry } from './bridge.ts';
import type { Client } from './client.ts';
import { attach } from './commands/attach.ts';
import { backup, restore } from './commands/backup.ts';
import { completion } from './commands/completion.ts';
import { config } from './commands/config.ts';
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
import { withEgressHint } from './egress-hint.ts';
import { everyCommand, helpBelow, nounHelp, overview } from './overview.ts';
import { clientOf, programAt } from './place.ts';
import { followedLine, harmless, terminalWords } from './print.ts';
import type { Screen } from './screen.ts';
import type { Program } from './program.ts';
import { awaited } from './progress.ts';
import { sayAnswer } from './answer.ts';
import { screenOf } from './screen.ts';
import { sourcesOf } from './sources.ts';
import { closestWords, didYouMean } from './suggest.ts';
import { watchTable } from './watch.ts';
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
  attach,
  logs,
  show,
  wait,
  result,
  serve,
  mcp: front,
  doctor,
  config,
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
    const body = withEgressHint(program, callerError(error));
    if (!(error instanceof AppError)) program.log.error('the command failed', { error });
    if (json) screen.out(`${JSON.stringify({ error: body })}\n`);
    else {
      screen.err(`errand: ${harmless(body.message)}\n${terminalWords(body.hint)}\n`);
    }
    return errorKind(body.code).exit;
  }
}

async function dispatch(
  typed: readonly string[],
  program: Program,
  screen: Screen,
): Promise<number> {
  const argv = withoutAlias(typed);
  const [word, ...args] = argv;
  if (word === '--version' || word === '-v' || word === '-V' || word === 'version') {
    screen.out(`${program.version}\n`);
    return 0;
  }
  const context = contextOf(program, screen);
  if (word === 'help' && args[0] === 'all') return everyCommand(context);
  if (word === 'help' && args.length > 0) return dispatch([...args, '--help'], program, screen);
  if (word === undefined || word === 'help' || word === '--help' || word === '-h')
    return overview(context);
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command && asksHelp(args)) {
    screen.out(command.help(word));
    return 0;
  }
  if (command) return command.run(context, word, args);
  if (word.startsWith('--home')) return dispatch(moved(argv), program, screen);
  return generated(argv, context.at(homeFlag(argv)));
}

function contextOf(program: Program, screen: Screen): CommandContext {
  const context: CommandContext = {
    program,
    screen,
    commands,
    client: () => clientOf(program),
    at: (home) => (home === undefined ? context : contextOf(programAt(program, home), screen)),
  };
  return context;
}

function withoutAlias(argv: readonly string[]): readonly string[] {
  const [word, ...rest] = argv;
  const at = word === 'help' ? 1 : 0;
  const name = argv[at];
  if (name === undefined || !Object.hasOwn(aliases, name)) return argv;
  return at === 0 ? [aliases[name]!, ...rest] : ['help', aliases[name]!, ...rest.slice(1)];
}

/** `errand --home DIR list`: the flag goes behind the command it was typed before. */
function moved(argv: readonly string[]): string[] {
  const [flag, ...rest] = argv;
  const flags = flag === '--home' ? [flag, ...rest.splice(0, 1)] : [flag!];
  const [word, ...args] = rest;
  if (word === undefined || word.startsWith('-'))
    throw new AppError('invalidInput', 'Name a command after --home DIR.');
  return [word, ...flags, ...args];
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
  if (common.watch) return watchTable(context, entry, { input, json: common.json });
  if (common.follow) {
    for await (const { data } of server.follow(entry.name, input))
      screen.out(common.json ? `${JSON.stringify(data)}\n` : followedLine(entry, data));
    return 0;
  }
  const caller = common.allowPrivate ? server.allowingPrivate() : server;
  const answer = await answerOf(context, caller, entry, { input, common });
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
  const typed = spokenWords(argv).slice(0, 2);
  const known = operations.flatMap(({ cli }) => (cli ? [cli.words.join(' ')] : []));
  const below = known.filter((words) => words.startsWith(`${typed[0]} `));
  const near =
    below.length > 0
      ? closestWords(typed.join(' '), below)
      : closestWords(typed[0] ?? '', [
          ...Object.keys(commands),
          ...Object.keys(aliases),
          ...known.flatMap((words) => [words.split(' ')[0]!]),
        ]);
  const list = below.map((words) => `errand ${words}`).join(', ');
  const suggestion = didYouMean(near.map((words) => `\`errand ${words}\``));
  const message = `There is no command \`errand ${(below.length > 0 ? typed.join(' ') : (typed[0] ?? '')).slice(0, 80)}\`.`;
  const all = below.length > 0 ? `There are: ${list}.` : '`errand help` lists the commands.';
  return new AppError('invalidInput', message, {
    hint: below.length > 0 && typed.length === 1 ? all : (suggestion ?? all),
  });
}

function asksHelp(args: readonly string[]): boolean {
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  return own.includes('--help') || own.includes('-h');
}

function isAfterDashes(argv: readonly string[], flag: string): boolean {
  const dashes = argv.indexOf('--');
  return dashes >= 0 && argv.indexOf(flag) > dashes;
}
