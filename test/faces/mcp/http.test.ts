// MCP over HTTP with the official clients of both generations: tools, errors, tasks, resources.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { startToyServer, type ToyServer } from '../../fixtures/toy-server.ts';

let dir: string;
let server: ToyServer;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'errand-mcp-'));
  server = await startToyServer(join(dir, 's'));
});

after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

for (const mode of ['auto', 'legacy'] as const) {
  test(`lists and calls tools over HTTP (${mode})`, async () => {
    const client = new Client({ name: 't', version: '1' }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
    const { tools } = await client.listTools();
    console.log(tools.map((t) => t.name), client.getNegotiatedProtocolVersion?.());
    const result = await client.callTool({ name: 'run_toy', arguments: { ms: 1, waitMs: 5000 } });
    console.log(JSON.stringify(result));
    await client.close();
  });
}
