// The toolset `web` as a model sees it: at most twelve tools and 16 kB.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalSource } from '../../../src/faces/mcp/local.ts';
import { ToolTables } from '../../../src/faces/mcp/table.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { startSite } from '../../fixtures/site/site.ts';
import { contextOf, createWeb } from '../../helpers/web.ts';

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

test('who has only the default tools is told how a crawl is read', async (t) => {
  const site = await startSite(t, { pages: 2 });
  const web = await createWeb(t);
  const tables = new ToolTables(web.operations, []);
  const { caller, signal } = contextOf('me');
  const source = new LocalSource({ tables, jobs: { started() {} } as never, caller, log: silentLog }); // prettier-ignore
  const started = await source.call('crawl_site', { url: site.url('/') }, { signal });
  assert.match(started.text!, /read_pages \(toolset web\), or in a shell: errand pages job_\w+/);
  const missing = await source.call('read_pages', {}, { signal });
  assert.match(missing.text!, /There is no tool read_pages\.\nIt is in the toolset web: /);
});
