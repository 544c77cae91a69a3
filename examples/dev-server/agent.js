// The calls of a coding agent that needs a dev server, made with the official MCP client.
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const errand = join(import.meta.dirname, '../../bin/errand.js');
const client = new Client({ name: 'example-agent', version: '1.0.0' });
await client.connect(
  new StdioClientTransport({
    command: process.execPath,
    args: [errand, 'mcp', '--toolsets', 'default,jobs'],
    env: process.env,
  }),
);

async function call(name, input) {
  const { isError, content, structuredContent } = await client.callTool({ name, arguments: input });
  if (isError) throw new Error(`${name}: ${content[0].text}`);
  return structuredContent;
}

/** Returns the running server of that name, or starts one and waits until it is ready. */
function ensureServer() {
  return call('run_command', {
    name: 'example-dev-server',
    argv: [process.execPath, 'server.js'],
    cwd: import.meta.dirname,
    ensure: true,
    ready: { text: 'Listening on' },
    waitMs: 50_000,
  });
}

async function requestPage(id) {
  const { text } = await call('read_output', { id });
  const [url] = text.match(/http:\S+/);
  await (await fetch(url)).text();
}

const { id, stage } = await ensureServer();
try {
  console.log('first call:', stage);
  await requestPage(id);
  const second = await ensureServer();
  console.log('second call:', second.id === id ? 'the same server' : 'another server');

  const { text } = await call('read_output', { id });
  console.log(`output:\n${text.trimEnd()}`);

  await call('cancel_job', { id });
  await call('retry_job', { id });
  const { jobs } = await call('wait_for_jobs', { ids: [id], until: { text: 'Listening on' } });
  console.log(`after the restart (attempt ${jobs[0].attempt}):\n${jobs[0].reached.text}`);
} finally {
  await call('cancel_job', { id });
  await call('delete_job', { id });
  await client.close();
}
