// Drives a stdio server like a client: start, handshake, calls. Uses handwritten JSON lines, which cost nothing, or the
// official client.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { importPeer } from '../harness.ts';

export interface StdioServer {
  pid: number;
  request(method: string, params: object): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

export async function startStdio(args: string[], env: NodeJS.ProcessEnv): Promise<StdioServer> {
  const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'ignore'] });
  const waiting = new Map<number, (response: Record<string, unknown>) => void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line) as { id?: number; result?: Record<string, unknown> };
    if (message.id === undefined) return;
    waiting.get(message.id)?.(message.result ?? message);
    waiting.delete(message.id);
  });
  let lastId = 0;
  const send = (message: object) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const request = (method: string, params: object) =>
    new Promise<Record<string, unknown>>((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      send({ id: lastId, method, params });
    });
  const clientInfo = { name: 'bench', version: '1' };
  await request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
  send({ method: 'notifications/initialized' });
  const close = async () => {
    const exited = once(child, 'exit');
    child.stdin.end();
    await exited;
  };
  return { pid: child.pid!, request, close };
}

interface Official {
  Client: new (info: object) => {
    connect(transport: object): Promise<void>;
    callTool(params: object): Promise<Record<string, unknown>>;
    close(): Promise<void>;
  };
}

interface OfficialStdio {
  StdioClientTransport: new (options: object) => { pid: number };
}

/** Supports only `tools/call`. */
export async function startOfficial(args: string[], env: NodeJS.ProcessEnv): Promise<StdioServer> {
  const { Client } = await importPeer<Official>('@modelcontextprotocol/client');
  const { StdioClientTransport } = await importPeer<OfficialStdio>(
    '@modelcontextprotocol/client/stdio',
  );
  const options = { command: process.execPath, args, env, stderr: 'ignore' };
  const transport = new StdioClientTransport(options);
  const client = new Client({ name: 'bench', version: '1' });
  await client.connect(transport);
  return {
    pid: transport.pid,
    request: (_method, params) => client.callTool(params),
    close: () => client.close(),
  };
}
