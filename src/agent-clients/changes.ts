// Adds and removes the entry of Errand in the config of one client.
import { readFileSync, rmSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { isDisabled, isSameConnection, mergeEntry, type Connection } from './connection.ts';
import {
  backupsOf,
  bytesOf,
  FileChanged,
  readConfigFile,
  replaceConfigFile,
  saveBackup,
} from './config-file.ts';
import {
  findProgram,
  readEntry,
  shadowedBy,
  tryRead,
  type FoundEntry,
  type Target,
} from './find.ts';
import { valueAt, withEntry, withoutEntry, type Entry, type Format } from './formats/edit.ts';
import { runProgram } from './own-command.ts';
import { entryName, type UserPlace } from './table.ts';

export interface Deps {
  place: UserPlace;
  clock: Clock;
  /** Keys in entries that the server no longer accepts: such an entry is updated. */
  rejectedKeys?: Set<string>;
}

type State = 'add' | 'update' | 'remove' | 'unchanged';

export interface Change {
  state: State;
  file: string;
  /** The text of the file before and after; equal if the client's own command writes the file. */
  before: string;
  after: string;
  /** The client's own command, if it is used. */
  command?: string[];
  /** Where an entry is that takes precedence. */
  shadowedBy?: string;
  /** The user switched the entry off in the client; it stays off. */
  isDisabled?: true;
  /** What the existing entry connects to, if it is replaced or removed. */
  existing?: Connection;
}

export interface Applied {
  change: Change;
  backup?: string;
  notes: string[];
}

const maxTries = 5;
const retryMs = 40;

export function planAdd(
  { place, rejectedKeys }: Deps,
  target: Target,
  connection: Connection,
): Change {
  const { client, scope } = target;
  if ('url' in connection && client.stdioOnly)
    throw new AppError('unsupported', `${client.name} connects only to local commands.`, {
      hint: 'Connect it without --http.',
    });
  const found = readEntry(place, target);
  const common = { file: found.file.path, before: found.file.text, ...shadow(place, target) };
  const { connection: current } = found;
  const isRejected =
    current && 'url' in current && current.key && rejectedKeys?.has(current.key) === true;
  if (isSameConnection(current, connection) && !isRejected)
    return {
      ...common,
      ...switchedOff(found.entry),
      state: 'unchanged',
      after: found.file.text,
    };
  const entry = mergeEntry(found.entry, client.entry(connection));
  const state = found.entry === undefined ? 'add' : 'update';
  const after = withEntry(client.format, found.file.text, found.path, entry);
  const isOwn = state === 'add' && 'command' in connection && usesCommand(place, target);
  const command = isOwn ? client.add?.(scope, connection) : undefined;
  return {
    ...common,
    ...switchedOff(entry),
    state,
    after: command ? found.file.text : after,
    ...(command ? { command: [client.program!, ...command] } : {}),
    ...(found.connection ? { existing: found.connection } : {}),
  };
}

export function planRemove({ place }: Deps, target: Target): Change {
  const { client, scope } = target;
  const found = readEntry(place, target);
  const { file } = found;
  const common = { file: file.path, before: file.text, ...shadow(place, target) };
  if (found.entry === undefined) return { ...common, state: 'unchanged', after: file.text };
  const existing = found.connection ? { existing: found.connection } : {};
  const original = findOriginal(target, found);
  if (original) return { ...common, state: 'remove', after: original.text ?? '', ...existing };
  const command = usesCommand(place, target) ? client.remove?.(scope) : undefined;
  if (command)
    return {
      ...common,
      ...existing,
      state: 'remove',
      after: file.text,
      command: [client.program!, ...command],
    };
  const after = withoutEntry(client.format, file.text, found.path);
  return { ...common, state: 'remove', after, ...existing };
}

function shadow(place: UserPlace, target: Target): { shadowedBy?: string } {
  const by = shadowedBy(place, target);
  return by === undefined ? {} : { shadowedBy: by };
}

const switchedOff = (entry: unknown): { isDisabled?: true } =>
  isDisabled(entry) ? { isDisabled: true } : {};

const usesCommand = (place: UserPlace, { client, scope }: Target): boolean =>
  client.commandScopes?.includes(scope) === true &&
  findProgram(place, client.program!) !== undefined;

/** The file as it was before the entry was added: a backup, or no file at all. */
function findOriginal(
  { client: { format } }: Target,
  { file, path, entry }: FoundEntry,
): { text: string; backup: string } | { text?: undefined } | undefined {
  const own = { format, path, entry: entry as Entry };
  for (const backup of backupsOf(file.realPath)) {
    const text = readFileSync(backup, 'utf8').replace(/^\ufeff/, '');
    if (isOriginal(text, file.text, own)) return { text, backup };
  }
  return isOriginal('', file.text, own) && !file.hasBom ? {} : undefined;
}

/**
 * If adding the entry to an earlier text results in exactly the current one, the earlier text is the current one without
 * the entry, byte for byte.
 */
export function isOriginal(
  earlier: string,
  current: string,
  { format, path, entry }: { format: Format; path: readonly string[]; entry: Entry },
): boolean {
  try {
    return earlier !== current && withEntry(format, earlier, path, entry) === current;
  } catch {
    return false;
  }
}

/** Applies a change. The file is read again: it may have changed since the plan was made. */
export async function applyAdd(
  deps: Deps,
  target: Target,
  connection: Connection,
): Promise<Applied> {
  const planned = planAdd(deps, target, connection);
  const isDone = (found: FoundEntry) => isSameConnection(found.connection, connection);
  const own = planned.command && (await runOwnCommand(deps, target, planned.command, isDone));
  const notes = own?.note === undefined ? [] : [own.note];
  if (own && notes.length === 0) return { change: planned, notes, ...backupOf(own) };
  return retryChanged(deps, target, () => {
    const change = planAdd(withoutCommands(deps), target, connection);
    if (change.state === 'unchanged') return { change: planned, notes, ...backupOf(own) };
    const { file } = readEntry(deps.place, target);
    if (file.text !== change.before) throw new FileChanged(file.path);
    const options = { now: deps.clock.now(), backup: own?.backup === undefined };
    const backup = replaceConfigFile(file, bytesOf(file, change.after), options);
    return { change, notes, ...backupOf({ backup: backup ?? own?.backup }) };
  });
}

export async function applyRemove(deps: Deps, target: Target): Promise<Applied> {
  const planned = planRemove(deps, target);
  const isDone = (found: FoundEntry) => found.entry === undefined;
  const own = planned.command && (await runOwnCommand(deps, target, planned.command, isDone));
  const notes = own?.note === undefined ? [] : [own.note];
  if (own && notes.length === 0) return { change: planned, notes, ...backupOf(own) };
  return retryChanged(deps, target, () => {
    const change = planRemove(withoutCommands(deps), target);
    if (change.state === 'unchanged') return { change: planned, notes, ...backupOf(own) };
    const found = readEntry(deps.place, target);
    const { file } = found;
    if (file.text !== change.before) throw new FileChanged(file.path);
    const original = findOriginal(target, found);
    const bytes = original && original.text === undefined ? undefined : bytesOf(file, change.after);
    const options = { now: deps.clock.now(), backup: original === undefined };
    const backup = replaceConfigFile(file, bytes, options);
    if (original?.text !== undefined) rmSync(original.backup, { force: true });
    return { change, notes, ...backupOf({ backup: backup ?? own?.backup }) };
  });
}

const backupOf = (own: { backup?: string | undefined } | undefined): { backup?: string } =>
  own?.backup === undefined ? {} : { backup: own.backup };

/**
 * Runs the client's own command and reads the file: an exit code proves nothing, because some versions report success for
 * writes that they did not make. A file that the command damaged is restored. A note means that nothing was done.
 */
async function runOwnCommand(
  { place, clock }: Deps,
  target: Target,
  [program, ...args]: readonly string[],
  isDone: (found: FoundEntry) => boolean,
): Promise<{ backup?: string | undefined; note?: string }> {
  const earlier = readEntry(place, target);
  const now = clock.now();
  const backup = earlier.file.exists ? saveBackup(earlier.file, now) : undefined;
  const { output } = await runProgram(place, program!, args);
  const found = tryRead(() => readEntry(place, target));
  const isIntact = found !== undefined && keepsOthers(earlier, found);
  if (isIntact && isDone(found)) return { backup };
  if (!isIntact) {
    const bytes = earlier.file.exists ? earlier.file.bytes : undefined;
    replaceConfigFile(readConfigFile(earlier.file.path), bytes, { now, backup: false });
  }
  const what = `${program} ${args.slice(0, 2).join(' ')}`;
  const verb = args.includes('remove') ? 'remove' : 'add';
  return {
    backup,
    note: `\`${what}\` did not ${verb} the entry (${firstLine(output)}). The file was edited instead.`,
  };
}

const withoutCommands = ({ place, ...deps }: Deps): Deps => ({
  ...deps,
  place: { ...place, env: { ...place.env, PATH: '' } },
});

const firstLine = (text: string): string => text.split('\n')[0]!.slice(0, 200) || 'no output';

/** The client's own command must not change the entries of other servers. */
function keepsOthers(before: FoundEntry, after: FoundEntry): boolean {
  const others = ({ content, path }: FoundEntry) => {
    const { [entryName]: _own, ...rest } = (valueAt(content, path.slice(0, -1)) ?? {}) as Entry;
    return rest;
  };
  return isDeepStrictEqual(others(before), others(after));
}

async function retryChanged(
  { clock }: Deps,
  { client }: Target,
  run: () => Applied,
): Promise<Applied> {
  for (let tries = 1; ; tries++) {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error;
      if (tries === maxTries)
        throw new AppError('conflict', `Another program keeps changing ${error.message}.`, {
          hint: `Close ${client.name} and run the command again. The file was not changed.`,
        });
      await clock.sleep(retryMs * tries);
    }
  }
}
