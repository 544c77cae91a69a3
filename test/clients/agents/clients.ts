// Starts the command-line agents from npm non-interactively, with Errand as their MCP server and a scripted model. Every
// client has its own home, no updates, no telemetry, and a proxy that rejects every address except loopback.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { tempFolder } from '../../helpers/folder.ts';
import { bin } from '../../helpers/server.ts';

interface Setup {
  /** The client's HOME. */
  folder: string;
  model: string;
  /** The MCP server as a command. */
  bridge: readonly string[];
}

interface Client {
  name: string;
  package: string;
  command: string;
  /** Writes the client's own files; returns its arguments and environment. */
  prepare: (setup: Setup) => { args: string[]; env: Record<string, string> };
}

export interface Session {
  exited: Promise<{ code: number | null; output: string }>;
  kill: () => void;
}

const prompt = 'Run the test suite and tell me what failed.';

function save(folder: string, path: string, content: string): void {
  const file = join(folder, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, content);
}

const claude: Client = {
  name: 'Claude Code',
  package: '@anthropic-ai/claude-code',
  command: 'claude',
  prepare: ({ folder, model, bridge: [command, ...args] }) => {
    save(folder, 'mcp.json', JSON.stringify({ mcpServers: { errand: { command, args } } }));
    const mcp = ['--mcp-config', join(folder, 'mcp.json'), '--strict-mcp-config'];
    // Claude Code rejects --dangerously-skip-permissions for root.
    return {
      args: ['-p', prompt, ...mcp, '--allowedTools', 'mcp__errand,Bash,Monitor'],
      env: {
        ANTHROPIC_BASE_URL: model,
        ANTHROPIC_API_KEY: 'scripted',
        CLAUDE_CODE_TMPDIR: folder,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        DISABLE_TELEMETRY: '1',
      },
    };
  },
};

const codex: Client = {
  name: 'Codex',
  package: '@openai/codex',
  command: 'codex',
  prepare: ({ folder, model, bridge: [command, ...args] }) => {
    const text = (value: unknown) => JSON.stringify(value);
    // `required`: Codex waits for the tools before its first turn, even on a busy machine.
    save(
      folder,
      '.codex/config.toml',
      `model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = ${text(`${model}/v1`)}
wire_api = "responses"

[mcp_servers.errand]
command = ${text(command)}
args = ${text(args)}
required = true
startup_timeout_sec = 60
`,
    );
    return {
      args: ['exec', '--skip-git-repo-check', prompt],
      env: { CODEX_HOME: join(folder, '.codex') },
    };
  },
};

const gemini: Client = {
  name: 'Gemini CLI',
  package: '@google/gemini-cli',
  command: 'gemini',
  prepare: ({ folder, model, bridge: [command, ...args] }) => {
    const settings = {
      security: { auth: { selectedType: 'gemini-api-key' } },
      general: { enableAutoUpdate: false, disableAutoUpdate: true },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
      mcpServers: { errand: { command, args, trust: true } },
    };
    save(folder, '.gemini/settings.json', JSON.stringify(settings));
    return {
      args: ['-m', 'gemini-2.5-pro', '--approval-mode', 'yolo', '--skip-trust', '-p', prompt],
      env: { GEMINI_API_KEY: 'scripted', GOOGLE_GEMINI_BASE_URL: model },
    };
  },
};

const opencode: Client = {
  name: 'opencode',
  package: 'opencode-ai',
  command: 'opencode',
  prepare: ({ folder, model, bridge }) => {
    const provider = {
      npm: '@ai-sdk/openai-compatible',
      name: 'scripted',
      options: { baseURL: `${model}/v1`, apiKey: 'scripted' },
      models: { scripted: { name: 'scripted', tool_call: true } },
    };
    const settings = {
      autoupdate: false,
      share: 'disabled',
      model: 'scripted/scripted',
      small_model: 'scripted/scripted',
      permission: 'allow',
      provider: { scripted: provider },
      mcp: { errand: { type: 'local', command: bridge } },
    };
    save(folder, '.config/opencode/opencode.json', JSON.stringify(settings));
    return {
      args: ['run', prompt],
      env: {
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      },
    };
  },
};

export const clients: readonly Client[] = [claude, codex, gemini, opencode];
export type { Client };

const modules = join(import.meta.dirname, '..', 'node_modules');
const programOf = ({ command }: Client) => join(modules, '.bin', command);

/** Returns the client's version, or why it cannot run here. The packages are optional: npm skips unsupported platforms. */
export async function versionOf(
  t: TestContext,
  client: Client,
): Promise<{ version: string } | { missing: string }> {
  if (!existsSync(programOf(client)))
    return {
      missing: `npm did not install ${client.package} on ${process.platform}-${process.arch}`,
    };
  try {
    const env = environment(tempFolder(t));
    const { stdout } = await promisify(execFile)(programOf(client), ['--version'], { env });
    return { version: /\d[\w.-]*/.exec(stdout)?.[0] ?? stdout.trim() };
  } catch (error) {
    return { missing: `${client.command} --version failed: ${String(error).split('\n')[0]}` };
  }
}

/** Starts a client in an empty folder; the test stops it at its end. */
export async function startClient(
  t: TestContext,
  client: Client,
  { model, home }: { model: string; home: string },
): Promise<Session> {
  const folder = tempFolder(t);
  const bridge = [process.execPath, bin, 'mcp', '--home', home];
  const { args, env } = client.prepare({ folder, model, bridge });
  const work = join(folder, 'work');
  mkdirSync(work);
  const child = spawn(programOf(client), args, {
    cwd: work,
    env: { ...environment(folder), ...(await noInternet(t)), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exit = once(child, 'exit') as Promise<[number | null]>;
  const exited = exit.then(([code]) => ({ code, output }));
  // Kill the whole process group: clients start helper processes.
  const kill = () => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // The process has already exited.
    }
  };
  t.after(async () => {
    kill();
    await exit;
  });
  return { exited, kill };
}

/** Hides the caller's environment from clients, so that they never see a developer's configuration or keys. */
function environment(folder: string): Record<string, string> {
  const { PATH = '', ERRAND_TEST_RUN = '' } = process.env;
  const own = { HOME: folder, TMPDIR: folder, LANG: 'C.UTF-8', NO_COLOR: '1' };
  return { PATH, ERRAND_TEST_RUN, ...own };
}

async function noInternet(t: TestContext): Promise<Record<string, string>> {
  const proxy = createServer((_request, response) => response.writeHead(403).end());
  proxy.on('connect', (request, socket) => {
    t.diagnostic(`refused: ${request.url}`);
    socket.on('error', () => {}); // a client that ends before it reads the refusal
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const names = { HTTP_PROXY: url, HTTPS_PROXY: url, NO_PROXY: '127.0.0.1,localhost' };
  const lower = Object.entries(names).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...names, ...(Object.fromEntries(lower) as Record<string, string>) };
}
