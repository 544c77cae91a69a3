// The official clients of both generations, connected over HTTP or over stdio to a front.
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

const program = join(import.meta.dirname, '../../fixtures/toy-server.ts');

export interface FrontChoice {
  toolsets?: string;
  dialects?: string;
}

const frontCommand = (socketPath: string, choice: FrontChoice) => ({
  command: process.execPath,
  args: [program, '--front', socketPath, choice.toolsets ?? '', choice.dialects ?? ''],
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
  choice: FrontChoice = {},
): Promise<Client> {
  return connected(t, mode, new StdioClientTransport(frontCommand(socketPath, choice)));
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

/** The first generation of the SDK, which knows tasks of 2025-11-25. */
export async function oldClient(t: TestContext, at: { url: string } | { socketPath: string }) {
  const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} });
  t.after(() => client.close());
  const transport =
    'url' in at ? new OldHttp(new URL(at.url)) : new OldStdio(frontCommand(at.socketPath, {}));
  await client.connect(transport);
  return client;
}

export interface ToolAnswer {
  structuredContent?: Record<string, unknown>;
  content: { type: string; text?: string }[];
  isError?: boolean;
}

export const textOf = (answer: unknown): string =>
  (answer as ToolAnswer).content.map((block) => block.text ?? '').join('\n');

/** A toy server for all tests of a file. */
export async function sharedToyServer(): Promise<ToyServer> {
  const folder = mkdtempSync(join(tmpdir(), 'errand-mcp-'));
  const server = await startToyServer(join(folder, 's'));
  after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return server;
}
