// Raw JSON-RPC over HTTP or over the stdio of a bridge, for requests that the official clients do not support.
import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';

export const tasksExtension = 'io.modelcontextprotocol/tasks';

export interface Reply {
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: Record<string, unknown> };
  status?: number;
  /** The response as it was sent. */
  line?: string;
}

/** The `_meta` that a 2026-07-28 client sends with every request. */
export function envelope(declares: { tasks?: boolean } = {}): Record<string, unknown> {
  return {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': declares.tasks
      ? { extensions: { [tasksExtension]: {} } }
      : {},
  };
}

let lastId = 0;

export async function postModern(
  url: string,
  method: string,
  params: Record<string, unknown>,
  declares: { tasks?: boolean } = {},
): Promise<Reply> {
  const name = params.name ?? params.uri ?? params.taskId;
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: ++lastId,
      method,
      params: { ...params, _meta: envelope(declares) },
    }),
  });
  const body = await response.text();
  const data = body.startsWith('{') ? body : body.match(/^data: (.*)$/m)![1]!;
  return { ...(JSON.parse(data) as Reply), status: response.status, line: data };
}

export interface BridgeProcess {
  process: ChildProcess;
  request(method: string, params: Record<string, unknown>): Promise<Reply>;
  /** Sends a line unchanged; resolves with the response to its id. */
  send(line: string): Promise<Reply>;
  notify(method: string, params: Record<string, unknown>): void;
  notifications: { method: string; params: Record<string, unknown> }[];
  exited: Promise<number | null>;
}

export function spawnBridge(
  t: TestContext,
  command: string,
  args: string[],
  env = process.env,
): BridgeProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env });
  child.stderr.on('data', (chunk: Buffer) => process.stderr.write(chunk));
  t.after(() => void child.kill('SIGKILL'));
  const pending = new Map<number, (reply: Reply) => void>();
  const notifications: BridgeProcess['notifications'] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line) as Reply & {
      id: number;
    } & BridgeProcess['notifications'][number];
    if (message.method) notifications.push(message);
    else pending.get(message.id)?.({ ...message, line });
  });
  const send = (message: object) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  return {
    process: child,
    notifications,
    exited: new Promise((resolve) => child.once('exit', resolve)),
    send: (line) =>
      new Promise((resolve) => {
        pending.set(Number(/"id":(\d+)/.exec(line)![1]), resolve);
        child.stdin.write(`${line}\n`);
      }),
    notify: (method, params) => void send({ method, params }),
    request: (method, params) =>
      new Promise((resolve) => {
        const id = ++lastId;
        pending.set(id, resolve);
        send({ id, method, params });
      }),
  };
}
