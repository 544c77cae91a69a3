// The smallest MCP server on the same SDK: one hello tool. The peer of the stdio benchmarks.
import { Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const tool = {
  name: 'hello',
  description: 'Says hello.',
  inputSchema: { type: 'object' as const, properties: { name: { type: 'string' } } },
};

serveStdio(() => {
  const server = new Server({ name: 'hello', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools: [tool] }));
  server.setRequestHandler('tools/call', () => ({ content: [{ type: 'text', text: 'hello' }] }));
  return server;
});
