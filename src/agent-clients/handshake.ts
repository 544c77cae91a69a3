// Performs a real MCP handshake with the command or URL that a client has configured.
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import type { Clock } from '../runtime/clock.ts';
import { createEgress } from '../runtime/egress/index.ts';
import { silentLog } from '../runtime/log.ts';
import { childProcess } from '../runtime/packages.ts';
import type { Connection } from './connection.ts';
import { isObject, type Entry } from './formats/edit.ts';

const protocolVersion = '2025-06-18';
const maxHandshakeMs = 45_000;
const maxResponseBytes = 4 * 1024 * 1024;
const maxErrorBytes = 64 * 1024;

export type Handshake =
  | { ok: true; server: string; version: string; tools: number }
  | { ok: false; problem: string };

interface HandshakeOptions {
  clock: Clock;
  env: Record<string, string>;
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion,
    capabilities: {},
    clientInfo: { name: 'errand-doctor', version: '1' },
  },
};
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };
const listTools = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} };

export function performHandshake(
  connection: Connection,
  options: HandshakeOptions,
): Promise<Handshake> {
  return 'url' in connection ? overHttp(connection, options) : overStdio(connection, options);
}

async function overStdio(
  { command, args }: { command: string; args: readonly string[] },
  { clock, env }: HandshakeOptions,
): Promise<Handshake> {
  const child = childProcess().spawn(command, args, { env, cwd: tmpdir(), stdio: 'pipe' });
  let errors = '';
  let started: Entry | undefined;
  const ended = new Promise<Handshake>((resolve) => {
    child.on('error', ({ message }) => resolve({ ok: false, problem: `cannot start: ${message}` }));
    child.on('exit', (code, signal) =>
      resolve({
        ok: false,
        problem: `${command} ended with ${signal ?? `exit code ${code}`}${errors.trim() === '' ? '' : `: ${lastLine(errors)}`}`,
      }),
    );
  });
  child.stdin.on('error', () => {}); // the process ended; `ended` reports it
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-maxErrorBytes);
  });
  const send = (message: object) => void child.stdin.write(`${JSON.stringify(message)}\n`);
  const answered = new Promise<Handshake>((resolve) => {
    let buffer = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      buffer += text;
      if (buffer.length > maxResponseBytes) resolve({ ok: false, problem: 'response too large' });
      const lines = buffer.split('\n');
      buffer = lines.pop()!;
      for (const line of lines.filter((each) => each.trim() !== '')) {
        const message = parseMessage(line);
        if (!message)
          resolve({ ok: false, problem: `printed text that is not MCP: ${line.slice(0, 120)}` });
        else if (isObject(message.error))
          resolve({ ok: false, problem: String(message.error.message) });
        else if (message.id === 1) {
          started = message.result as Entry;
          send(initialized);
          send(listTools);
        } else if (message.id === 2) resolve(summary(started, message.result));
      }
    });
  });
  const timeout = new AbortController();
  const late = clock.sleep(maxHandshakeMs, timeout.signal).then((): Handshake => ({
    ok: false,
    problem: `no response within ${maxHandshakeMs / 1000} s`,
  }));
  send(initialize);
  try {
    return await Promise.race([answered, ended, late]);
  } finally {
    timeout.abort();
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit');
      child.stdin.end();
      const kill = clock.after(2000, () => child.kill('SIGKILL'));
      await exit;
      kill();
    }
  }
}

async function overHttp(
  { url, key }: { url: string; key: string | undefined },
  { clock }: HandshakeOptions,
): Promise<Handshake> {
  // The operator wrote the URL into the client's config.
  const egress = createEgress({ policy: { allow: [] }, clock, log: silentLog });
  const call = async (message: object): Promise<Entry | undefined> => {
    const response = await egress.request({
      url,
      method: 'POST',
      trust: 'trusted',
      redirects: 0,
      timeoutMs: maxHandshakeMs,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': protocolVersion,
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify(message),
    });
    const text = await response.body.text();
    if (response.status >= 400) throw new Error(`HTTP ${response.status}: ${text.slice(0, 200)}`);
    const data = /^data: (.*)$/m.exec(text)?.[1] ?? text;
    const found = parseMessage(data);
    if (isObject(found?.error)) throw new Error(String(found.error.message));
    return found?.result as Entry | undefined;
  };
  try {
    const started = await call(initialize);
    return summary(started, await call(listTools));
  } catch (error) {
    return { ok: false, problem: (error as Error).message };
  } finally {
    await egress.close();
  }
}

function parseMessage(line: string): Entry | undefined {
  try {
    const value = JSON.parse(line) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function summary(started: Entry | undefined, tools: unknown): Handshake {
  const info = isObject(started?.serverInfo) ? started.serverInfo : undefined;
  if (typeof info?.name !== 'string') return { ok: false, problem: 'the response is not MCP' };
  const list = isObject(tools) && Array.isArray(tools.tools) ? tools.tools : [];
  return { ok: true, server: info.name, version: String(info.version), tools: list.length };
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1)!.slice(0, 300);
