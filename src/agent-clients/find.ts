// Finds the agent clients of this machine, their config files and their entries for Errand.
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { AppError } from '../errors.ts';
import { readConfigFile, type ConfigFile } from './config-file.ts';
import { connectionOf, type Connection } from './connection.ts';
import { ParseError, valueAt, type Entry } from './formats/edit.ts';
import { agentClients, entryName, type AgentClient, type Scope, type UserPlace } from './table.ts';

export interface Target {
  client: AgentClient;
  scope: Scope;
}

/** The clients with these ids or names; without any, all that were found on this machine. */
export function findClients(place: UserPlace, names: readonly string[] = []): AgentClient[] {
  if (names.length === 0) return agentClients.filter((client) => isInstalled(place, client));
  return names.map((name) => {
    const wanted = name.toLowerCase().replaceAll(/[\s_]+/g, '-');
    const found = agentClients.find(
      ({ id, name: own, program }) =>
        id === wanted || program === wanted || own.toLowerCase() === name.toLowerCase(),
    );
    if (found) return found;
    throw new AppError('invalidInput', `Unknown client: ${name}.`, {
      hint: `Known clients: ${agentClients.map(({ id }) => id).join(', ')}.`,
    });
  });
}

const isInstalled = (place: UserPlace, client: AgentClient): boolean =>
  client.markers(place).some((path) => existsSync(path)) ||
  (client.program !== undefined && findProgram(place, client.program) !== undefined);

/** The absolute path of a program on the PATH. */
export function findProgram({ env, platform }: UserPlace, name: string): string | undefined {
  if (platform === 'win32') return undefined;
  return (env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return statSync(path).isFile();
      } catch {
        return false;
      }
    });
}

export interface FoundEntry {
  file: ConfigFile;
  content: Entry;
  /** Where the entry is, or would be. */
  path: string[];
  entry: unknown;
  connection: Connection | undefined;
}

/** Reads the config file of a client: the one with our entry, else the first that exists, else the preferred one. */
export function readEntry(place: UserPlace, { client, scope }: Target): FoundEntry {
  const paths =
    scope === 'user'
      ? client.userFiles(place)
      : client.projectFiles.map((file) => join(place.cwd, file));
  if (paths.length === 0)
    throw new AppError('unsupported', `${client.name} has no config file for a project.`, {
      hint: 'Connect it for all projects: run the command without --project.',
    });
  const found = paths.map((path) => readOne(client, readConfigFile(path)));
  return (
    found.find(({ entry }) => entry !== undefined) ??
    found.find(({ file }) => file.exists) ??
    found[0]!
  );
}

function readOne(client: AgentClient, file: ConfigFile): FoundEntry {
  const content = parseFile(client, file);
  const path = client.path(content);
  const entry = valueAt(content, path);
  return { file, content, path, entry, connection: connectionOf(entry) };
}

function parseFile({ name, format }: AgentClient, { path, text }: ConfigFile): Entry {
  try {
    return format.parse(text);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw new AppError('conflict', `${path} cannot be parsed: ${error.message}.`, {
      hint: `${name} cannot read it either. Correct it and run the command again. The file was not changed.`,
    });
  }
}

/** Describes an entry of a scope that takes precedence over this one in the current folder. */
export function shadowedBy(place: UserPlace, { client, scope }: Target): string | undefined {
  if (client.id === 'claude-code') {
    const local = tryRead(() => {
      const { content, file } = readEntry(place, { client, scope: 'user' });
      const isLocal = projectFolders(place).some(
        (folder) => valueAt(content, ['projects', folder, 'mcpServers', entryName]) !== undefined,
      );
      return isLocal ? `the local scope of this folder in ${file.path}` : undefined;
    });
    if (local !== undefined) return local;
  }
  if (scope === 'project' || client.projectFiles.length === 0) return undefined;
  const folders = projectFolders(place);
  return folders
    .map((cwd) =>
      tryRead(() => {
        const { entry, file } = readEntry({ ...place, cwd }, { client, scope: 'project' });
        const isUserFile = client.userFiles(place).includes(file.path);
        return entry === undefined || isUserFile ? undefined : file.path;
      }),
    )
    .find((path) => path !== undefined);
}

/** The current folder and its parents up to the root of the project. */
function projectFolders({ cwd }: UserPlace): string[] {
  const folders = [cwd];
  for (let at = cwd; !existsSync(join(at, '.git')); at = dirname(at)) {
    if (dirname(at) === at) return [cwd];
    folders.push(dirname(at));
  }
  return folders;
}

/** Undefined if the file cannot be read or parsed. */
export function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
