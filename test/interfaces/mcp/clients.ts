// The official clients of both SDK generations, connected over HTTP or to a bridge over stdio.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import { startToyServer, type ToyServer } from '../../fixtures/toy-server.ts';

export type Mode = 'auto' | 'legacy';

const bridgeProgram = join(import.meta.dirname, '../../fixtures/toy-bridge.ts');

export interface BridgeChoice {
  toolsets?: string;
  dialects?: string;
}

const bridgeCommand = (socketPath: string, choice: BridgeChoice) => ({
  command: process.execPath,
  args: [bridgeProgram, socketPath, choice.toolsets ?? '', choice.dialects ?? ''],
});

export async function httpClient(
  t: TestContext,
  url: string,
  mode: Mode,
  key = '',
): Promise<Client> {
  const headers = key ? { authorization: `Bearer ${key}` } : undefined;
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    ...(headers ? { requestInit: { headers } } : {}),
  });
  return connected(t, mode, transport);
}

export async function stdioClient(
  t: TestContext,
  socketPath: string,
  mode: Mode,
  choice: BridgeChoice = {},
): Promise<Client> {
  return connected(t, mode, new StdioClientTransport(bridgeCommand(socketPath, choice)));
}

async function connected(
  t: TestContext,
  mode: Mode,
  transport: StdioClientTransport | StreamableHTTPClientTransport,
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  t.after(() => client.close());
  await client.connect(transport);
  return client;
}

/** The first SDK generation, which supports the tasks of 2025-11-25. */
export async function oldClient(t: TestContext, at: { url: string } | { socketPath: string }) {
  const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} });
  t.after(() => client.close());
  const transport =
    'url' in at ? new OldHttp(new URL(at.url)) : new OldStdio(bridgeCommand(at.socketPath, {}));
  await client.connect(transport);
  return client;
}

/** The same with a key, over HTTP. */
export async function oldHttpClient(t: TestContext, url: string, key: string) {
  const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} });
  t.after(() => client.close());
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new OldHttp(new URL(url), { requestInit: { headers } }));
  return client;
}

export interface ToolResult {
  structuredContent?: Record<string, unknown>;
  content: { type: string; text?: string }[];
  isError?: boolean;
}

export const textOf = (result: unknown): string =>
  (result as ToolResult).content.map((block) => block.text ?? '').join('\n');

/** Starts a toy server that all tests of a file share. */
export async function sharedToyServer(): Promise<ToyServer> {
  const folder = mkdtempSync(join(tmpdir(), 'errand-mcp-'));
  const server = await startToyServer(join(folder, 's'));
  after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return server;
}
