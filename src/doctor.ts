// What `errand doctor` looks at: Node, home, disk, shell, the server and its log, clients, and whether jobs would die
// with whoever starts the server.
import { accessSync, constants, existsSync, readFileSync, statSync, statfsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from './config.ts';
import { kinds } from './app.ts';
import { errorBody } from './errors.ts';
import { Client } from './faces/cli/client.ts';
import type { Finding } from './faces/cli/program.ts';

type Env = Record<string, string | undefined>;

const freeBytesMin = 1024 ** 3;

export async function examine(home: string, env: Env): Promise<Finding[]> {
  return [
    nodeVersion(),
    platform(),
    homeFolder(home),
    disk(home),
    shell(env),
    settings(home, env),
    await server(home, env),
    ...logTail(home),
    ...clients(),
    ...survival(env),
  ];
}

function nodeVersion(): Finding {
  const { node, sqlite } = process.versions;
  return { name: 'Node', state: 'ok', text: `${node} with SQLite ${sqlite}` };
}

function platform(): Finding {
  if (process.platform === 'linux')
    return { name: 'system', state: 'ok', text: 'Linux: everything works' };
  if (process.platform === 'darwin') {
    return {
      name: 'system',
      state: 'note',
      text: 'macOS: commands that leave their process group are found by parent only; input detection is missing',
      hint: 'docs/command.md lists the gaps.',
    };
  }
  return {
    name: 'system',
    state: 'problem',
    text: `${process.platform}: commands are not supported yet`,
  };
}

function homeFolder(home: string): Finding {
  if (!existsSync(home))
    return { name: 'home', state: 'ok', text: `${home} (made at first start)` };
  try {
    accessSync(home, constants.W_OK);
  } catch {
    return {
      name: 'home',
      state: 'problem',
      text: `${home} cannot be written`,
      hint: 'Choose another with ERRAND_HOME.',
    };
  }
  const mode = statSync(home).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    return {
      name: 'home',
      state: 'problem',
      text: `${home} is open to others (${mode.toString(8)})`,
      hint: `chmod 700 ${home}`,
    };
  }
  return { name: 'home', state: 'ok', text: home };
}

function disk(home: string): Finding {
  const { bavail, bsize } = statfsSync(existsSync(home) ? home : homedir());
  const free = bavail * bsize;
  const text = `${(free / 1024 ** 3).toFixed(1)} GiB free`;
  return free < freeBytesMin
    ? {
        name: 'disk',
        state: 'problem',
        text,
        hint: 'Free some space: a full disk stops new jobs (nothing is lost).',
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
        hint: 'Set SHELL; commands fall back to /bin/sh.',
      };
}

function settings(home: string, env: Env): Finding {
  try {
    loadConfig({ home, sections: kinds }, env);
    return {
      name: 'settings',
      state: 'ok',
      text: existsSync(join(home, 'config.json')) ? 'config.json is valid' : 'defaults',
    };
  } catch (error) {
    return {
      name: 'settings',
      state: 'problem',
      text: errorBody(error).message,
      hint: 'Mend config.json or the ERRAND_ variables.',
    };
  }
}

async function server(home: string, env: Env): Promise<Finding> {
  let socketPath: string;
  try {
    ({ socketPath } = loadConfig({ home }, { ...env }));
  } catch {
    return { name: 'server', state: 'note', text: 'not looked for: the settings are wrong' };
  }
  try {
    const { version } = await new Client({ socketPath }).health();
    return { name: 'server', state: 'ok', text: `running, version ${version}` };
  } catch {
    return {
      name: 'server',
      state: 'note',
      text: 'not running',
      hint: 'Fronts and commands start it by themselves; `errand serve` runs it for good.',
    };
  }
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

function clients(): Finding[] {
  const known: [string, string][] = [
    ['Claude Code', '.claude.json'],
    ['Codex', '.codex/config.toml'],
    ['Gemini CLI', '.gemini/settings.json'],
    ['opencode', '.config/opencode'],
    ['Cursor', '.cursor'],
  ];
  const found = known.filter(([, path]) => existsSync(join(homedir(), path))).map(([name]) => name);
  return [
    {
      name: 'clients',
      state: 'ok',
      text: found.length > 0 ? `found ${found.join(', ')}` : 'none found in your home',
    },
  ];
}

/** Whether what the server starts outlives the session that started it. */
function survival(env: Env): Finding[] {
  if (process.platform !== 'linux') return [];
  if (existsSync('/.dockerenv') || existsSync('/run/.containerenv') || env.container) {
    return [
      {
        name: 'survival',
        state: 'note',
        text: 'inside a container: jobs end with the container',
        hint: 'Keep the home on a volume; the next start says which jobs were lost.',
      },
    ];
  }
  const logind = ['/etc/systemd/logind.conf']
    .filter(existsSync)
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  if (/^\s*KillUserProcesses\s*=\s*yes/im.test(logind)) {
    return [
      {
        name: 'survival',
        state: 'problem',
        text: 'logind ends your processes at logout (KillUserProcesses=yes)',
        hint: '`loginctl enable-linger` or `errand service install` keeps jobs alive.',
      },
    ];
  }
  return [{ name: 'survival', state: 'ok', text: 'jobs outlive the client and the server' }];
}
