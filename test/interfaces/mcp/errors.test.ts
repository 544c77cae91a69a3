// The official clients of both SDK generations can read every error of every tool. They validate structured content against
// the listed output schema. The test covers our own tools and those of every dialect.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialects } from '../../../src/app.ts';
import { openInterfaces } from '../../access/interfaces.ts';
import { startApp } from '../../helpers/app.ts';
import { httpClient, oldHttpClient, textOf, type ToolResult } from './clients.ts';

interface Listed {
  name: string;
  inputSchema: { properties?: Record<string, Schema>; required?: string[] };
}
interface Schema {
  type?: string | string[];
  enum?: unknown[];
  minimum?: number;
  properties?: Record<string, Schema>;
  required?: string[];
}

const choices = [
  'toolsets=all',
  ...dialects.flatMap(({ name, tools }) => (tools ? [`dialect=${name}`] : [])),
];

test('official clients can read every error of every tool', async (t) => {
  const settings = { web: { browser: { path: '/nonexistent' }, search: { engines: ['local'] } } };
  const { app, call } = await startApp(t, settings);
  const { url } = await openInterfaces(t, app);
  const { key } = await call<{ key: string }>('create_key', { owner: 'me', scopes: ['admin'] });
  for (const choice of choices) {
    const mcpUrl = `${url}/mcp?${choice}`;
    const clients = [await httpClient(t, mcpUrl, 'auto', key), await oldHttpClient(t, mcpUrl, key)];
    for (const [generation, client] of clients.entries()) {
      const { tools } = (await client.listTools()) as { tools: Listed[] };
      let errors = 0;
      for (const tool of tools) {
        for (const args of [{ noSuchField: 1 }, absentArgs(tool)]) {
          const result = (await client.callTool({
            name: tool.name,
            arguments: args,
          })) as ToolResult;
          const context = `${choice} ${tool.name}, SDK ${2 - generation}.x: ${JSON.stringify(result)}`;
          if (!result.isError) continue;
          errors++;
          assert.equal(result.structuredContent, undefined, context);
          assert.ok(textOf(result).length > 10, context);
        }
      }
      assert.ok(errors >= tools.length / 2, `${choice}: only ${errors} errors`);
    }
  }
});

/** Builds valid arguments that refer to objects that do not exist. */
function absentArgs({ inputSchema }: Listed): Record<string, unknown> {
  const { properties = {}, required = [] } = inputSchema;
  return Object.fromEntries(
    required.map((name) => [name, absentValue(name, properties[name] ?? {})]),
  );
}

function absentValue(
  name: string,
  { type, enum: choice, minimum, properties, required }: Schema,
): unknown {
  if (choice) return choice[0];
  switch (String(Array.isArray(type) ? type[0] : type)) {
    case 'number':
    case 'integer':
      return minimum ?? 1;
    case 'boolean':
      return true;
    case 'array':
      return [name === 'ids' ? absentJob : 'x'];
    case 'object':
      return properties
        ? absentArgs({ name, inputSchema: { properties, required: required ?? [] } })
        : {};
    default:
      return /url/i.test(name) ? 'http://127.0.0.1:9/' : absentJob;
  }
}

const absentJob = 'job_0000000000000000';
