// Entry point of the command line. A few commands are built in; the others are generated from the server's operations.
import { byName } from '../../runtime/by-name.ts';
import { AppError, callerError, errorKind } from '../../errors.ts';
import { aliases } from './aliases.ts';
import { splitHomeFlag } from './args.ts';
import type { CallResponse, CatalogEntry } from './operations-route.ts';
import type { Client } from './client.ts';
import type { CommandContext, CommandLoaders } from './command.ts';
import { createClient, programAt } from './server-target.ts';
import { streamLine, sanitize, withCommandNames } from './print.ts';
import type { Screen } from './screen.ts';
import type { Program } from './program.ts';
import { printResponse } from './print-response.ts';
import { createScreen } from './screen.ts';
import { createSources } from './sources.ts';
import { closestWords, didYouMean } from './suggest.ts';
import {
  findSubcommands,
  findEntry,
  help,
  waitsByDefault,
  parseInput,
  withoutFlags,
  usageError,
  type CommonFlags,
} from './operation-command.ts';

const commands: CommandLoaders = byName({
  run: async () => (await import('./commands/run.ts')).run,
  attach: async () => (await import('./commands/attach.ts')).attach,
  logs: async () => (await import('./commands/logs.ts')).logs,
  show: async () => (await import('./commands/show.ts')).show,
  wait: async () => (await import('./commands/show.ts')).wait,
  result: async () => (await import('./commands/result.ts')).result,
  serve: async () => (await import('./commands/serve.ts')).serve,
  stop: async () => (await import('./commands/stop.ts')).stop,
  mcp: async () => (await import('./commands/mcp.ts')).mcp,
  add: async () => (await import('./commands/add.ts')).add,
  remove: async () => (await import('./commands/add.ts')).remove,
  watch: async () => (await import('./commands/watch.ts')).watch,
  doctor: async () => (await import('./commands/doctor.ts')).doctor,
  config: async () => (await import('./commands/config.ts')).config,
  service: async () => (await import('./commands/service.ts')).service,
  open: async () => (await import('./commands/open.ts')).open,
  backup: async () => (await import('./commands/backup.ts')).backup,
  restore: async () => (await import('./commands/backup.ts')).restore,
  migrate: async () => (await import('./commands/store.ts')).migrate,
  store: async () => (await import('./commands/store.ts')).store,
  completion: async () => (await import('./commands/completion.ts')).completion,
});

export async function runCli(argv: readonly string[], program: Program): Promise<number> {
  const screen = createScreen(program);
  const json = argv.includes('--json') && !isAfterDashes(argv, '--json');
  try {
    return await dispatch(argv, program, screen);
  } catch (error) {
    const { withEgressHint } = await import('./egress-hint.ts');
    const body = withEgressHint(program, withUsageHint(callerError(error), error));
    if (!(error instanceof AppError)) program.log.error('command failed', { error });
    if (json) screen.out(`${JSON.stringify({ error: body })}\n`);
    else {
      screen.err(`errand: ${sanitize(body.message)}\n${withCommandNames(body.hint)}\n`);
    }
    return errorKind(body.code).exit;
  }
}

/** The default hint for invalid input is written for requests. */
function withUsageHint<B extends { code: string }>(body: B, error: unknown): B {
  const hasHint = error instanceof AppError && error.hint !== undefined;
  if (body.code !== 'invalidInput' || hasHint) return body;
  return { ...body, hint: '`errand help COMMAND` explains the arguments and flags of a command.' };
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
  const context = createContext(program, screen);
  if (word === 'help') return printHelp(args, context);
  if (word === undefined || word === '--help' || word === '-h') return printHelp([], context);
  if (word.startsWith('-') && !/^--home(?:=|$)/.test(word)) throw unknownFirstFlag(word);
  const command = Object.hasOwn(commands, word) ? await commands[word]!() : undefined;
  if (command && requestsHelp(args)) {
    screen.out(command.help(word));
    return 0;
  }
  if (command) return command.run(context, word, args);
  if (word.startsWith('-')) return dispatch(moveHomeFlag(argv), program, screen);
  const { home, rest } = splitHomeFlag(argv);
  return runGenerated(rest, context.at(home));
}

/** `errand help`, `errand help all` and `errand help COMMAND`. */
async function printHelp(argv: readonly string[], context: CommandContext): Promise<number> {
  const { home, rest } = splitHomeFlag(argv);
  const { program, screen } = context.at(home);
  if (rest.length > 0 && rest[0] !== 'all') return dispatch([...rest, '--help'], program, screen);
  const { printAllCommands, printOverview } = await import('./overview.ts');
  return rest.length > 0 ? printAllCommands(context.at(home)) : printOverview(context);
}

function createContext(program: Program, screen: Screen): CommandContext {
  const context: CommandContext = {
    program,
    screen,
    commands,
    client: () => createClient(program),
    at: (home) => (home === undefined ? context : createContext(programAt(program, home), screen)),
  };
  return context;
}

function withoutAlias(argv: readonly string[]): readonly string[] {
  const [word, ...rest] = argv;
  const at = word === 'help' ? 1 : 0;
  const name = argv[at];
  if (name === undefined || !Object.hasOwn(aliases, name)) return argv;
  // `errand status` without a job lists all jobs.
  if (argv.length === 1 && name === 'status') return ['list'];
  return at === 0 ? [aliases[name]!, ...rest] : ['help', aliases[name]!, ...rest.slice(1)];
}

function unknownFirstFlag(flag: string): AppError {
  return new AppError('invalidInput', `Unknown flag ${flag}.`, {
    hint: 'Flags follow the command: errand COMMAND [FLAGS]. Before it, only --home DIR, --help and --version are valid.',
  });
}

/** `errand --home DIR list`: moves the flag behind the command. */
function moveHomeFlag(argv: readonly string[]): string[] {
  const [flag, ...rest] = argv;
  const flags = flag === '--home' ? [flag, ...rest.splice(0, 1)] : [flag!];
  const [word, ...args] = rest;
  if (word === undefined || word.startsWith('-'))
    throw new AppError('invalidInput', 'A command is required after --home DIR.', {
      hint: 'Usage: errand --home DIR COMMAND [FLAGS]',
    });
  return [word, ...flags, ...args];
}

async function runGenerated(argv: readonly string[], context: CommandContext): Promise<number> {
  const server = await context.client();
  const { operations } = await server.catalog(argv[0]);
  const entry = findEntry(operations, argv);
  if (!entry) {
    const verbs = requestsHelp(argv) ? findSubcommands(operations, argv) : [];
    if (verbs.length === 0) throw unknownCommand(operations, argv);
    context.screen.out((await import('./overview.ts')).groupHelp(verbs, argv));
    return 0;
  }
  try {
    return await runOperation(context, server, entry, { argv, operations });
  } catch (error) {
    throw usageError(error, entry, operations);
  }
}

async function runOperation(
  context: CommandContext,
  server: Client,
  entry: CatalogEntry,
  { argv, operations }: { argv: readonly string[]; operations: readonly CatalogEntry[] },
): Promise<number> {
  const { screen, program } = context;
  const sources = createSources(program.stdin);
  const { inputs, common } = await parseInput(entry, argv, program.clock.now(), sources);
  if (common.help) {
    const { subcommandHelp } = await import('./overview.ts');
    screen.out(help(entry, operations) + subcommandHelp(operations, entry));
    return 0;
  }
  const [firstInput] = inputs;
  const input = { ...entry.cli!.preset, ...firstInput };
  if (inputs.length > 1) {
    const { callEach } = await import('./call-each.ts');
    return callEach({ screen, server, entry, operations }, inputs, common.json);
  }
  if (common.watch) {
    const { watchTable } = await import('./watch.ts');
    return watchTable(context, entry, { input, json: common.json });
  }
  if (common.follow) {
    for await (const { data } of server.follow(entry.name, input))
      screen.out(common.json ? `${JSON.stringify(data)}\n` : streamLine(entry, data));
    return 0;
  }
  const caller = common.allowPrivate ? server.allowingPrivate() : server;
  const response = await callOperation(context, caller, entry, { input, common });
  if (typeof response === 'number') return response;
  return printResponse(screen, response, { json: common.json, operations }, entry);
}

/** Calls the operation, and waits for its job when the command does so by default or --wait is set. */
async function callOperation(
  context: CommandContext,
  server: Client,
  entry: CatalogEntry,
  { input, common }: { input: Record<string, unknown>; common: CommonFlags },
): Promise<CallResponse | number> {
  const addsWait = waitsByDefault(entry) && input.waitMs === undefined;
  const call = () => server.callNamed(entry.name, addsWait ? { ...input, waitMs: 0 } : input);
  if (!(common.wait ?? addsWait)) return call();
  const { waitForResponse } = await import('./progress.ts');
  return waitForResponse(context, call, common.json);
}

function unknownCommand(operations: readonly CatalogEntry[], argv: readonly string[]): AppError {
  const typed = withoutFlags(argv).slice(0, 2);
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
  const message = `Unknown command: \`errand ${(below.length > 0 ? typed.join(' ') : (typed[0] ?? '')).slice(0, 80)}\`.`;
  const all = below.length > 0 ? `Available: ${list}.` : '`errand help` lists the commands.';
  return new AppError('invalidInput', message, {
    hint: below.length > 0 && typed.length === 1 ? all : (suggestion ?? all),
  });
}

function requestsHelp(args: readonly string[]): boolean {
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  return own.includes('--help') || own.includes('-h');
}

function isAfterDashes(argv: readonly string[], flag: string): boolean {
  const dashes = argv.indexOf('--');
  return dashes >= 0 && argv.indexOf(flag) > dashes;
}
