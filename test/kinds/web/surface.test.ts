// The toolset `web` as a model sees it: at most twelve tools and 16 kB.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ToolTables } from '../../../src/faces/mcp/table.ts';
import { createWeb } from '../../helpers/web.ts';

test('the toolset web is at most twelve tools and 16 kB', async (t) => {
  const web = await createWeb(t);
  const own = web.operations.list().filter(({ toolsets }) => toolsets?.includes('web'));
  assert.ok(own.length <= 12, `${own.length} tools`);
  const table = new ToolTables(web.operations, []).table({ toolsets: ['web'] });
  const names = new Set(own.map(({ name }) => name));
  const cards = [...table.tools.values()]
    .map(({ card }) => card)
    .filter(({ name }) => names.has(name));
  assert.equal(cards.length, own.length);
  const bytes = Buffer.byteLength(JSON.stringify({ tools: cards }));
  assert.ok(bytes <= 16_000, `${bytes} bytes`);
});
