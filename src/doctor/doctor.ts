// The checks of `errand doctor`: Node, the platform, home and permissions, disk, shell, settings, the server and its log,
// MCP clients, and whether jobs survive the process that started the server.
import { accessSync, constants, existsSync, readFileSync, statSync, statfsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { loadConfig } from '../config.ts';
import { kinds } from '../app.ts';
import { errorBody } from '../errors.ts';
import { clientPlace, socketFolders, type ClientPlace } from '../config-place.ts';
import { Client } from '../interfaces/cli/client.ts';
import { unreachableServer } from '../interfaces/cli/connect.ts';
import { removeStaleSockets } from '../interfaces/http/stale-sockets.ts';
import { privateFiles } from '../home.ts';
import { isShared } from '../runtime/folder.ts';
import { isLocked } from '../runtime/home-lock.ts';
import { thisMachine, type Finding, type Machine } from '../runtime/machine.ts';
import { checkClients } from './clients.ts';
import { checkSurvival } from './survival.ts';

type Env = Machine['env'];

const minFreeBytes = 1024 ** 3;
const maxResponseMs = 10_000;

export async function examine(
  home: string,
  env: Env,
  machine: Machine = thisMachine(env),
): Promise<Finding[]> {
  return [
    nodeVersion(),
    ...platform(machine),
    homeFolder(home),
    ...permissions(home),
    disk(home),
    shell(env),
    ...settings(home, machine),
    await server(home, env),
    ...(await sockets(env)),
    ...logTail(home),
    ...(await checkClients(machine)),
    ...checkSurvival(pidOf(home), machine),
  ];
}

function nodeVersion(): Finding {
  const { node, sqlite } = process.versions;
  return { name: 'Node', state: 'ok', text: `${node} with SQLite ${sqlite}` };
}

/** What works only on Linux. docs/command.md has the same list. */
const macGaps = [
  'a process that leaves its group and its parents survives a cancel',
  'waiting for input, ports, memory and CPU are not detected while a job runs (ready checks match text only)',
  'no ring buffer: a job ends when it reaches its output limit',
  'a terminal (tty) requires the optional package @lydell/node-pty',
  'process start times have a resolution of one second',
];

function platform({ platform: name }: Machine): Finding[] {
  if (name === 'linux') return [{ name: 'system', state: 'ok', text: 'Linux: everything works' }];
  if (name === 'darwin') {
    return [
      {
        name: 'system',
        state: 'note',
        text: 'macOS: supported with these gaps',
        hint: macGaps.map((gap) => `- ${gap}`).join('\n    '),
      },
    ];
  }
  return [
    {
      name: 'system',
      state: 'problem',
      text: `${name}: commands are not supported yet`,
      hint: 'On Windows, run the server in WSL.',
    },
  ];
}

function homeFolder(home: string): Finding {
  const problem = (text: string): Finding => ({
    name: 'home',
    state: 'problem',
    text,
    hint: 'Choose another with ERRAND_HOME.',
  });
  const folder = nearestFolder(home);
  if (!isWritable(folder)) return problem(`${home} is not writable`);
  if (folder !== home)
    return { name: 'home', state: 'ok', text: `${home} (created at first start)` };
  if (isShared(home)) return problem(`${home} is a shared folder`);
  const mode = statSync(home).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    return {
      name: 'home',
      state: 'problem',
      text: `${home} is accessible to other users (mode ${mode.toString(8)})`,
      hint: `chmod 700 ${home}`,
    };
  }
  return { name: 'home', state: 'ok', text: home };
}

/** The folder itself, or the nearest existing parent. */
const nearestFolder = (path: string): string =>
  existsSync(path) ? path : nearestFolder(dirname(path));

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return statSync(folder).isDirectory();
  } catch {
    return false;
  }
}

function permissions(home: string): Finding[] {
  const isOpen = (path: string) => existsSync(path) && (statSync(path).mode & 0o077) !== 0;
  // Files that people create with an editor usually have an open mode. They matter only if the folder is open as well.
  const checked = isOpen(home) ? [...privateFiles, 'config.json'] : privateFiles;
  const open = checked.map((name) => join(home, name)).filter(isOpen);
  if (!existsSync(home)) return [];
  if (open.length === 0)
    return [{ name: 'permissions', state: 'ok', text: 'keys and database are private' }];
  return [
    {
      name: 'permissions',
      state: 'problem',
      text: `accessible to other users: ${open.join(', ')}`,
      hint: `chmod 600 ${open.join(' ')}`,
    },
  ];
}

function disk(home: string): Finding {
  const { bavail, bsize } = statfsSync(nearestFolder(home));
  const free = bavail * bsize;
  const text = `${(free / 1024 ** 3).toFixed(1)} GiB free`;
  return free < minFreeBytes
    ? {
        name: 'disk',
        state: 'problem',
        text,
        hint: 'Free some space. A full disk stops new jobs, but nothing is lost.',
      }
    : { name: 'disk', state: 'ok', text };
}

function shell(env: Env): Finding {
  const path = env.SHELL ?? '/bin/sh';
  return existsSync(path)
    ? { name: 'shell', state: 'ok', text: path }
    : {
        name: 'shell',
        state: 'problem',
        text: `${path} does not exist`,
        hint: 'Set SHELL to an existing shell. Until then, commands use /bin/sh.',
      };
}

/** Whether the settings are valid, and what the kinds report about this machine with these settings. */
function settings(home: string, machine: Machine): Finding[] {
  try {
    const { sections } = loadConfig({ home, sections: kinds }, machine.env);
    const text = existsSync(join(home, 'config.json')) ? 'config.json is valid' : 'defaults';
    const found = kinds.flatMap((kind) => kind.examine?.(sections[kind.name], machine) ?? []);
    return [{ name: 'settings', state: 'ok', text }, ...found];
  } catch (error) {
    const { code, message: text, hint: own } = errorBody(error);
    const isWrong = code === 'invalidInput' || own === undefined;
    const hint = isWrong ? 'Correct config.json or the ERRAND_ variables.' : own;
    return [{ name: 'settings', state: 'problem', text, hint }];
  }
}

async function server(home: string, env: Env): Promise<Finding> {
  let place: ClientPlace;
  try {
    place = clientPlace(home, env);
  } catch (error) {
    const { message: text, hint } = errorBody(error);
    return { name: 'server', state: 'problem', text, ...(hint ? { hint } : {}) };
  }
  try {
    const { version } = await new Client(place).health(AbortSignal.timeout(maxResponseMs));
    const pid = pidOf(home);
    const process = pid === undefined ? '' : `, process ${pid}`;
    return { name: 'server', state: 'ok', text: `running, version ${version}${process}` };
  } catch (error) {
    if (place.recorded && isLocked(home)) {
      const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      const { message: text, hint } = unreachableServer(place, code ?? message);
      return { name: 'server', state: 'problem', text, ...(hint ? { hint } : {}) };
    }
    return {
      name: 'server',
      state: 'note',
      text: 'not running',
      hint: 'Commands and MCP clients start it automatically. `errand serve` runs it permanently.',
    };
  }
}

/** Removes sockets that no server listens on. */
async function sockets(env: Env): Promise<Finding[]> {
  const removed = await removeStaleSockets(socketFolders(env));
  if (removed === 0) return [];
  const text = `removed ${removed} stale ${removed === 1 ? 'socket' : 'sockets'}`;
  return [{ name: 'sockets', state: 'ok', text }];
}

function pidOf(home: string): string | undefined {
  const path = join(home, 'server.pid');
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : undefined;
}

function logTail(home: string): Finding[] {
  const path = join(home, 'server.log');
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  const bad = lines.filter((line) => /"level":"(error|warn)"|^errand:/.test(line)).slice(-3);
  if (bad.length === 0) return [{ name: 'log', state: 'ok', text: `${path}: no warnings` }];
  return [
    {
      name: 'log',
      state: 'note',
      text: `${path}, last warnings:\n    ${bad.map((line) => line.slice(0, 300)).join('\n    ')}`,
    },
  ];
}
