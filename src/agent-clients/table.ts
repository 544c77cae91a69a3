// The agent clients that Errand can configure: one row per client.
import { posix, win32 } from 'node:path';
import { bearer, type Connection } from './connection.ts';
import { isObject, valueAt, type Entry, type Format } from './formats/edit.ts';
import { json, jsonWithComments } from './formats/json.ts';
import { toml } from './formats/toml.ts';
import { yaml } from './formats/yaml.ts';

/** The name of our entry in every client. */
export const entryName = 'errand';

/** Where files are looked up. Tests use other platforms. */
export interface UserPlace {
  platform: string;
  userHome: string;
  env: Record<string, string | undefined>;
  cwd: string;
}

export type Scope = 'user' | 'project';

export interface AgentClient {
  id: string;
  name: string;
  format: Format;
  /** Possible files, the preferred one first. */
  userFiles(place: UserPlace): string[];
  /** Relative to the project. */
  projectFiles: readonly string[];
  /** Exist if the client was used on this machine. */
  markers(place: UserPlace): string[];
  /** Its command on the PATH. */
  program?: string;
  /** Started from a desktop, without the PATH of a shell. */
  isDesktop?: true;
  stdioOnly?: true;
  /** Where the entry is in a file with this content. */
  path(content: Entry): string[];
  entry(connection: Connection): Entry;
  /** Arguments of its own command that adds the entry. */
  add?(scope: Scope, connection: { command: string; args: readonly string[] }): string[];
  remove?(scope: Scope): string[];
  /** Scopes that its own command supports. */
  commandScopes?: readonly Scope[];
  skillFolder?(place: UserPlace): string;
  projectSkillFolder?: string;
}

const pathOf = ({ platform }: UserPlace) => (platform === 'win32' ? win32 : posix);
const inHome = (place: UserPlace, ...parts: string[]) =>
  pathOf(place).join(place.userHome, ...parts);
const named = (value: string | undefined) => (value === '' ? undefined : value);

/** ~/.config, also on macOS: some clients use it on every platform. */
const xdgConfig = (place: UserPlace, ...parts: string[]) =>
  pathOf(place).join(named(place.env.XDG_CONFIG_HOME) ?? inHome(place, '.config'), ...parts);

/** The folder for settings that the platform suggests. */
function appConfig(place: UserPlace, ...parts: string[]): string {
  const { platform, env } = place;
  if (platform === 'darwin') return inHome(place, 'Library', 'Application Support', ...parts);
  if (platform !== 'win32') return xdgConfig(place, ...parts);
  return win32.join(named(env.APPDATA) ?? inHome(place, 'AppData', 'Roaming'), ...parts);
}

const standardPath = () => ['mcpServers', entryName];

/** The shape that most clients share. */
const standardEntry = (connection: Connection): Entry =>
  'url' in connection
    ? { url: connection.url, headers: bearer(connection.key) }
    : { command: connection.command, args: [...connection.args] };

const typedEntry =
  (stdio: string, more: Entry = {}) =>
  (connection: Connection): Entry => ({
    type: 'url' in connection ? 'http' : stdio,
    ...standardEntry(connection),
    ...more,
  });

const claudeHome = (place: UserPlace, ...parts: string[]) => {
  const own = named(place.env.CLAUDE_CONFIG_DIR);
  return own === undefined ? inHome(place, ...parts) : pathOf(place).join(own, ...parts);
};

const codexHome = (place: UserPlace, ...parts: string[]) =>
  pathOf(place).join(named(place.env.CODEX_HOME) ?? inHome(place, '.codex'), ...parts);

export const agentClients: readonly AgentClient[] = [
  {
    id: 'claude-code',
    name: 'Claude Code',
    format: json,
    program: 'claude',
    userFiles: (place) => [claudeHome(place, '.claude.json')],
    projectFiles: ['.mcp.json'],
    markers: (place) => [claudeHome(place, '.claude.json'), inHome(place, '.claude')],
    path: standardPath,
    entry: typedEntry('stdio'),
    commandScopes: ['user', 'project'],
    add: (scope, { command, args }) => [
      ...['mcp', 'add', '--scope', scope, entryName, '--', command],
      ...args,
    ],
    remove: (scope) => ['mcp', 'remove', '--scope', scope, entryName],
    skillFolder: (place) =>
      named(place.env.CLAUDE_CONFIG_DIR) === undefined
        ? inHome(place, '.claude', 'skills')
        : claudeHome(place, 'skills'),
    projectSkillFolder: '.claude/skills',
  },
  {
    id: 'claude-desktop',
    name: 'Claude Desktop',
    format: json,
    isDesktop: true,
    stdioOnly: true,
    userFiles: (place) => [appConfig(place, 'Claude', 'claude_desktop_config.json')],
    projectFiles: [],
    markers: (place) => [appConfig(place, 'Claude')],
    path: standardPath,
    entry: standardEntry,
  },
  {
    id: 'codex',
    name: 'Codex',
    format: toml,
    program: 'codex',
    userFiles: (place) => [codexHome(place, 'config.toml')],
    projectFiles: ['.codex/config.toml'],
    markers: (place) => [codexHome(place)],
    path: () => ['mcp_servers', entryName],
    entry: (connection) =>
      'url' in connection
        ? { url: connection.url, http_headers: bearer(connection.key) }
        : { command: connection.command, args: [...connection.args] },
    // `codex mcp add` is not used: it removes the comments of the file.
    skillFolder: (place) => codexHome(place, 'skills'),
    projectSkillFolder: '.agents/skills',
  },
  {
    id: 'gemini-cli',
    name: 'Gemini CLI',
    format: jsonWithComments,
    program: 'gemini',
    userFiles: (place) => [inHome(place, '.gemini', 'settings.json')],
    projectFiles: ['.gemini/settings.json'],
    markers: (place) => [inHome(place, '.gemini', 'settings.json'), inHome(place, '.gemini')],
    path: standardPath,
    entry: (connection) =>
      'url' in connection
        ? { httpUrl: connection.url, headers: bearer(connection.key) }
        : standardEntry(connection),
    commandScopes: ['user', 'project'],
    add: (scope, { command, args }) => [
      ...['mcp', 'add', '--scope', scope, entryName, command],
      ...args,
    ],
    remove: (scope) => ['mcp', 'remove', '--scope', scope, entryName],
    skillFolder: (place) => inHome(place, '.gemini', 'skills'),
    projectSkillFolder: '.gemini/skills',
  },
  {
    id: 'opencode',
    name: 'opencode',
    format: jsonWithComments,
    program: 'opencode',
    userFiles: (place) =>
      ['opencode.jsonc', 'opencode.json'].map((file) => xdgConfig(place, 'opencode', file)),
    projectFiles: [
      'opencode.jsonc',
      'opencode.json',
      '.opencode/opencode.jsonc',
      '.opencode/opencode.json',
    ],
    markers: (place) => [xdgConfig(place, 'opencode')],
    // Newer versions nest the servers. The form that the file already has is kept.
    path: (content) =>
      isObject(valueAt(content, ['mcp', 'servers']))
        ? ['mcp', 'servers', entryName]
        : ['mcp', entryName],
    entry: (connection) =>
      'url' in connection
        ? { type: 'remote', url: connection.url, headers: bearer(connection.key) }
        : { type: 'local', command: [connection.command, ...connection.args] },
    skillFolder: (place) => xdgConfig(place, 'opencode', 'skills'),
    projectSkillFolder: '.opencode/skills',
  },
  {
    id: 'cursor',
    name: 'Cursor',
    format: jsonWithComments,
    isDesktop: true,
    userFiles: (place) => [inHome(place, '.cursor', 'mcp.json')],
    projectFiles: ['.cursor/mcp.json'],
    markers: (place) => [inHome(place, '.cursor')],
    path: standardPath,
    entry: standardEntry,
    skillFolder: (place) => inHome(place, '.cursor', 'skills'),
    projectSkillFolder: '.cursor/skills',
  },
  {
    id: 'vscode',
    name: 'VS Code',
    format: jsonWithComments,
    program: 'code',
    isDesktop: true,
    userFiles: (place) => [appConfig(place, 'Code', 'User', 'mcp.json')],
    projectFiles: ['.vscode/mcp.json'],
    markers: (place) => [appConfig(place, 'Code', 'User')],
    path: () => ['servers', entryName],
    entry: typedEntry('stdio'),
    commandScopes: ['user'],
    add: (_scope, { command, args }) => [
      '--add-mcp',
      JSON.stringify({ name: entryName, type: 'stdio', command, args }),
    ],
  },
  {
    id: 'copilot-cli',
    name: 'Copilot CLI',
    format: json,
    program: 'copilot',
    userFiles: (place) => [inHome(place, '.copilot', 'mcp-config.json')],
    projectFiles: ['.github/mcp.json'],
    markers: (place) => [inHome(place, '.copilot')],
    path: standardPath,
    entry: typedEntry('local', { tools: ['*'] }),
    skillFolder: (place) => inHome(place, '.copilot', 'skills'),
    projectSkillFolder: '.github/skills',
  },
  {
    id: 'windsurf',
    name: 'Windsurf',
    format: json,
    isDesktop: true,
    userFiles: (place) => [inHome(place, '.codeium', 'windsurf', 'mcp_config.json')],
    projectFiles: [],
    markers: (place) => [inHome(place, '.codeium', 'windsurf')],
    path: standardPath,
    entry: (connection) =>
      'url' in connection
        ? { serverUrl: connection.url, headers: bearer(connection.key) }
        : standardEntry(connection),
  },
  {
    id: 'zed',
    name: 'Zed',
    format: jsonWithComments,
    isDesktop: true,
    userFiles: zedFiles,
    projectFiles: ['.zed/settings.json'],
    markers: (place) => zedFiles(place).map((file) => pathOf(place).dirname(file)),
    path: () => ['context_servers', entryName],
    entry: standardEntry,
  },
  {
    id: 'goose',
    name: 'Goose',
    format: yaml,
    program: 'goose',
    userFiles: gooseFiles,
    projectFiles: ['.goose/config.yaml'],
    markers: (place) => gooseFiles(place).map((file) => pathOf(place).dirname(file)),
    path: () => ['extensions', entryName],
    entry: (connection) => ({
      enabled: true,
      name: entryName,
      description: 'Background jobs',
      timeout: 300,
      ...('url' in connection
        ? { type: 'streamable_http', uri: connection.url, headers: bearer(connection.key) }
        : { type: 'stdio', cmd: connection.command, args: [...connection.args] }),
    }),
  },
];

function zedFiles(place: UserPlace): string[] {
  if (place.platform === 'win32') return [appConfig(place, 'Zed', 'settings.json')];
  const common = xdgConfig(place, 'zed', 'settings.json');
  return place.platform === 'darwin'
    ? [common, appConfig(place, 'Zed', 'settings.json')]
    : [common];
}

function gooseFiles(place: UserPlace): string[] {
  return place.platform === 'win32'
    ? [appConfig(place, 'Block', 'goose', 'config', 'config.yaml')]
    : [xdgConfig(place, 'goose', 'config.yaml')];
}
