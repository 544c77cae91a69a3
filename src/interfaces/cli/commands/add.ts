// `errand add` and `errand remove`: connect the agent clients of this machine to Errand, or disconnect them.
import { dirname, join } from 'node:path';
import type { Connection } from '../../../agent-clients/connection.ts';
import type { Applied, Change, Deps } from '../../../agent-clients/changes.ts';
import { diffText } from '../../../agent-clients/diff.ts';
import {
  applySkill,
  planSkill,
  skillFolder,
  type SkillChange,
} from '../../../agent-clients/skill.ts';
import type { AgentClient, Scope, UserPlace } from '../../../agent-clients/table.ts';
import { AppError, errorBody } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import type { Program } from '../program.ts';
import { confirm } from '../confirm.ts';
import { createClientKey, revokeClientKeys, type ClientKey } from '../client-keys.ts';
import { paint } from '../screen.ts';
import { sanitize } from '../print.ts';

const commonFlags = {
  project: { type: 'boolean', help: 'only for the project in the current folder' },
  'dry-run': { type: 'boolean', help: 'show the changes as a diff and write nothing' },
  yes: { type: 'boolean', short: 'y', help: 'do not ask (required when stdin is not a terminal)' },
  json: { type: 'boolean', help: 'print JSON for scripts' },
} as const;

export const add = command({
  summary: 'connect the agent clients of this machine',
  about:
    'Connects agent clients to Errand: Claude Code, Claude Desktop, Codex, Gemini CLI, opencode, Cursor, VS Code, Copilot CLI, Windsurf, Zed and Goose. Without CLIENT, all clients that are found. Uses the client’s own command if it has one; otherwise makes a small edit that keeps comments and formatting. A backup of each changed file is kept next to it. Running it again changes nothing.',
  examples: ['errand add', 'errand add --dry-run', 'errand add codex cursor --project --yes'],
  args: '[CLIENT…]',
  flags: {
    ...commonFlags,
    http: {
      type: 'boolean',
      help: 'connect over HTTP with a new key (scopes read and run) instead of starting a command',
    },
    skill: {
      type: 'boolean',
      help: 'also install the skill that tells a model when and how to use Errand',
    },
  },
  run: (context, { values, positionals }) =>
    runAll(context, positionals, values, adding(values.http === true, values.skill === true)),
});

export const remove = command({
  summary: 'disconnect agent clients',
  about:
    'Removes the entry that `errand add` made. A file that nobody else has changed is restored byte for byte. Keys that `errand add --http` created are revoked. Jobs keep running.',
  examples: ['errand remove', 'errand remove claude-code --yes'],
  args: '[CLIENT…]',
  flags: commonFlags,
  run: (context, { values, positionals }) => runAll(context, positionals, values, removing),
});

interface Values {
  project?: boolean;
  'dry-run'?: boolean;
  yes?: boolean;
  json?: boolean;
}

interface Target {
  client: AgentClient;
  scope: Scope;
}

/** What a command does with one client. */
interface Action {
  question: string;
  plan(context: CommandContext, deps: Deps, target: Target): Promise<Change>;
  apply(context: CommandContext, deps: Deps, target: Target): Promise<Applied>;
  /** What happens to the skill in the client's skill folder. */
  skill?: 'add' | 'remove';
  done: Record<Change['state'], string>;
}

interface Row {
  client: AgentClient;
  change?: Change;
  applied?: Applied;
  skill?: SkillChange;
  problem?: { message: string; hint?: string };
}

async function runAll(
  context: CommandContext,
  names: readonly string[],
  values: Values,
  action: Action,
): Promise<number> {
  const { findClients } = await import('../../../agent-clients/find.ts');
  const { program, screen } = context;
  const { platform, env, userHome } = program;
  const place: UserPlace = { platform, env, userHome, cwd: process.cwd() };
  const scope: Scope = values.project ? 'project' : 'user';
  const found = findClients(place, names);
  const clients =
    names.length > 0 || !values.project
      ? found
      : found.filter(({ projectFiles }) => projectFiles.length > 0);
  if (clients.length === 0) throw noClient();
  const deps: Deps = { place, clock: program.clock, rejectedKeys: new Set() };
  const rows: Row[] = [];
  for (const client of clients)
    rows.push(
      await attempt(client, async () => ({
        change: await action.plan(context, deps, { client, scope }),
        ...(action.skill ? planSkillOf(program, place, { client, scope }, action.skill) : {}),
      })),
    );
  const isDry = values['dry-run'] === true;
  if (!values.json) printPlan(context, rows);
  const pending = rows.filter(
    ({ change, skill }) => change && [change.state, skill?.state ?? 'unchanged'].some(isChange),
  );
  if (!isDry && pending.length > 0) {
    if (!values.yes && !(await confirm(context, action.question))) {
      screen.err('Nothing was changed.\n');
      return 1;
    }
    for (const row of pending) {
      const run = async () => {
        const target = { client: row.client, scope };
        const applied = isChange(row.change!.state)
          ? { applied: await action.apply(context, deps, target) }
          : {};
        if (row.skill) applySkill(skillSource(program), row.skill);
        return applied;
      };
      Object.assign(row, await attempt(row.client, run));
    }
  }
  if (values.json)
    screen.out(`${JSON.stringify({ clients: rows.map((row) => toJson(row, scope)) })}\n`);
  else if (!isDry) for (const row of rows) printRow(context, row, action);
  return rows.some(({ problem }) => problem) ? 1 : 0;
}

const isChange = (state: Change['state']): boolean => state !== 'unchanged';

/** The skill is part of this package. */
const skillSource = ({ binPath }: Program): string =>
  join(dirname(binPath), '..', 'plugin', 'skills', 'errand');

function planSkillOf(
  program: Program,
  place: UserPlace,
  target: Target,
  action: 'add' | 'remove',
): { skill?: SkillChange } {
  const folder = skillFolder(place, target);
  return folder === undefined ? {} : { skill: planSkill(skillSource(program), folder, action) };
}

const noClient = (): AppError =>
  new AppError('notFound', 'No agent client was found on this machine.', {
    hint: 'Install one, or name the client whose config should be created: errand add codex',
  });

/** A problem with one client must not keep the others from being connected. */
async function attempt(client: AgentClient, run: () => Promise<Partial<Row>>): Promise<Row> {
  try {
    return { client, ...(await run()) };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { message, hint } = errorBody(error);
    return { client, problem: { message, ...(hint ? { hint } : {}) } };
  }
}

function adding(isHttp: boolean, withSkill: boolean): Action {
  const stdio = ({ program }: CommandContext): Connection => {
    const { home } = program.place({});
    const named = home === program.defaultHome() ? [] : ['--home', home];
    return { command: process.execPath, args: [program.binPath, 'mcp', ...named] };
  };
  return {
    question: 'Make these changes?',
    ...(withSkill ? { skill: 'add' } : {}),
    plan: async (context, deps, target) => {
      const { planAdd } = await import('../../../agent-clients/changes.ts');
      const connection = isHttp ? { url: mcpUrl(context), key: 'NEW-KEY' } : stdio(context);
      if (isHttp) await findRejectedKey(deps, target);
      return planAdd(deps, target, connection);
    },
    apply: async (context, deps, target) => {
      const { applyAdd } = await import('../../../agent-clients/changes.ts');
      const notes = await installationNotes(context);
      if (!isHttp) {
        const applied = await applyAdd(deps, target, stdio(context));
        return { ...applied, notes: [...applied.notes, ...notes] };
      }
      const server = await context.client();
      let key: ClientKey | undefined;
      try {
        key = await createClientKey(server, target.client);
        return await applyAdd(deps, target, { url: mcpUrl(context), key: key.key });
      } catch (error) {
        if (key) await server.call('revoke_key', { id: key.id });
        throw error;
      }
    },
    done: {
      add: 'connected',
      update: 'updated',
      remove: 'removed',
      unchanged: 'already connected',
    },
  };
}

/** The key of an entry may have been revoked, or have expired. */
async function findRejectedKey(deps: Deps, target: Target): Promise<void> {
  const { readEntry, tryRead } = await import('../../../agent-clients/find.ts');
  const current = tryRead(() => readEntry(deps.place, target).connection);
  if (!current || !('url' in current) || current.key === undefined) return;
  const { performHandshake } = await import('../../../agent-clients/handshake.ts');
  const result = await performHandshake(current, { clock: deps.clock, env: {} });
  if (!result.ok && result.problem.startsWith('HTTP 401')) deps.rejectedKeys!.add(current.key);
}

const removing: Action = {
  question: 'Remove these entries?',
  skill: 'remove',
  plan: async (_context, deps, target) =>
    (await import('../../../agent-clients/changes.ts')).planRemove(deps, target),
  apply: async (context, deps, target) => {
    const { applyRemove } = await import('../../../agent-clients/changes.ts');
    const applied = await applyRemove(deps, target);
    const { existing } = applied.change;
    if (!existing || !('url' in existing)) return applied;
    const revoked = await revokeClientKeys(context, target.client);
    return revoked === undefined ? applied : { ...applied, notes: [...applied.notes, revoked] };
  },
  done: { add: 'connected', update: 'updated', remove: 'removed', unchanged: 'not connected' },
};

/** The URL of the running server, for clients that connect over HTTP. */
function mcpUrl({ program }: CommandContext): string {
  const base = program.env.ERRAND_URL ?? program.place({}).recorded?.url;
  if (base !== undefined && base !== '') return new URL('mcp', base.replace(/\/*$/, '/')).href;
  throw new AppError('unavailable', 'No server with an HTTP address is running.', {
    hint: 'Start one with `errand serve` or `errand service install`, or set ERRAND_URL and ERRAND_KEY.',
  });
}

/** What may stop the written command from working later. */
async function installationNotes({ program }: CommandContext): Promise<string[]> {
  return program.binPath.includes('/_npx/')
    ? [
        'Errand runs from the cache of npx, which npm may delete. Install it with `npm install -g errand` and run `errand add` again.',
      ]
    : [];
}

function printPlan({ screen }: CommandContext, rows: readonly Row[]): void {
  for (const { client, change, skill } of rows) {
    if (skill && isChange(skill.state))
      screen.out(`${client.name}: ${skill.state} the skill in ${sanitize(skill.folder)}\n`);
    if (!change || change.state === 'unchanged') continue;
    const text = change.command
      ? `runs: ${change.command.join(' ')}\nwhich writes ${change.file}\n`
      : diffOf(change);
    screen.out(`${client.name}\n  ${sanitize(text).trimEnd().replaceAll('\n', '\n  ')}\n`);
  }
}

/** Keys that are already in the file are not shown. */
const diffOf = ({ before, after, file }: Change): string =>
  diffText(before, after, file).replaceAll(/(Bearer )[\w.-]{12,}/g, '$1…');

function printRow(context: CommandContext, row: Row, { done }: Action): void {
  const { screen } = context;
  const { client, change, applied, problem } = row;
  if (problem) {
    screen.out(`${paint(screen, 'red', '✗')} ${client.name}: ${sanitize(problem.message)}\n`);
    if (problem.hint) screen.out(`    ${sanitize(problem.hint)}\n`);
    return;
  }
  const { state, file, shadowedBy, isDisabled, existing } = (applied?.change ?? change)!;
  screen.out(`${paint(screen, 'green', '✓')} ${client.name}: ${done[state]} (${sanitize(file)})\n`);
  const notes = [
    ...(applied?.backup ? [`Backup: ${applied.backup}`] : []),
    ...(state === 'update' && existing
      ? [`It was connected to another installation: ${describe(existing)}`]
      : []),
    ...(shadowedBy ? [`In this folder another entry takes precedence: ${shadowedBy}`] : []),
    ...(isDisabled ? [`It is switched off in ${client.name}: switch it on there.`] : []),
    ...(row.skill && isChange(row.skill.state) ? [`Skill: ${row.skill.folder}`] : []),
    ...(applied?.notes ?? []),
  ];
  for (const note of notes) screen.out(`    ${sanitize(note)}\n`);
}

const describe = (connection: Connection): string =>
  'url' in connection ? connection.url : [connection.command, ...connection.args].join(' ');

function toJson(
  { client, change, applied, skill, problem }: Row,
  scope: Scope,
): Record<string, unknown> {
  const { state, file, command: own, shadowedBy, isDisabled } = applied?.change ?? change ?? {};
  const diff = change && !change.command ? diffOf(change) : '';
  return {
    client: client.id,
    name: client.name,
    scope,
    state: problem ? 'failed' : state,
    isDone: applied !== undefined || state === 'unchanged',
    ...(file === undefined ? {} : { file }),
    ...(own ? { command: own } : {}),
    ...(diff === '' ? {} : { diff }),
    ...(applied?.backup ? { backup: applied.backup } : {}),
    ...(shadowedBy ? { shadowedBy } : {}),
    ...(isDisabled ? { isDisabled } : {}),
    ...(skill ? { skill } : {}),
    ...(applied && applied.notes.length > 0 ? { notes: applied.notes } : {}),
    ...(problem ? { error: problem } : {}),
  };
}
