// The toolset `web` as a model sees it: at most twelve tools and 16 kB.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalSource } from '../../../src/interfaces/mcp/local.ts';
import { ToolRegistry } from '../../../src/interfaces/mcp/toolsets.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { startSite } from '../../fixtures/site/site.ts';
import { contextOf, createWeb } from '../../helpers/web.ts';

test('the toolset web has at most twelve tools and 16 kB', async (t) => {
  const web = await createWeb(t);
  const own = web.operations.list().filter(({ toolsets }) => toolsets?.includes('web'));
  assert.ok(own.length <= 12, `${own.length} tools`);
  const toolList = new ToolRegistry(web.operations, []).select({ toolsets: ['web'] });
  const names = new Set(own.map(({ name }) => name));
  const definitions = [...toolList.tools.values()]
    .map(({ definition }) => definition)
    .filter(({ name }) => names.has(name));
  assert.equal(definitions.length, own.length);
  const bytes = Buffer.byteLength(JSON.stringify({ tools: definitions }));
  assert.ok(bytes <= 16_000, `${bytes} bytes`);
});

test('the default toolset can read a crawl and names the toolset of missing tools', async (t) => {
  const site = await startSite(t, { pages: 2 });
  const web = await createWeb(t);
  const registry = new ToolRegistry(web.operations, []);
  const { caller, signal } = contextOf('me');
  const source = new LocalSource({ registry, jobs: { started() {} } as never, caller, log: silentLog }); // prettier-ignore
  const started = await source.call('crawl_site', { url: site.url('/') }, { signal });
  assert.match(started.text!, /read with read_pages/);
  const { id } = started.structured as { id: string };
  const pages = await source.call('read_pages', { id }, { signal });
  assert.ok(Array.isArray((pages.structured as { pages: unknown }).pages));
  const missing = await source.call('read_page', {}, { signal });
  assert.match(missing.text!, /Tool read_page does not exist\.\nIt is in the toolset web: /);
});

test('responses for a model fit their budget, and the cursor skips nothing', async (t) => {
  const site = await startSite(t, { pages: 30, bytes: 6000 });
  const web = await createWeb(t);
  const { id } = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  const { caller, signal } = contextOf('me');
  const registry = new ToolRegistry(web.operations, []);
  const source = new LocalSource({ registry, toolsets: ['web'], jobs: { started() {} } as never, caller, log: silentLog }); // prettier-ignore
  const call = async (name: string, input: Record<string, unknown>) => {
    const { text = '', structured } = await source.call(name, input, { signal });
    assert.doesNotMatch(text, /left out/);
    return { text, ...(structured as Record<string, unknown>) } as ReturnType<typeof JSON.parse>;
  };
  const seen: string[] = [];
  for (let cursor: string | undefined; ;) {
    const more = cursor === undefined ? {} : { cursor };
    const read = await call('read_pages', { id, fields: ['markdown'], maxBytes: 500_000, ...more });
    for (const { url } of read.pages) seen.push(url);
    cursor = read.nextCursor;
    if (cursor === undefined) break;
  }
  assert.deepEqual([seen.length, new Set(seen).size], [30, 30]);
  const lines = Array.from(
    { length: 2000 },
    (_, i) => `<p>Line ${i} of the river, and its mill.</p>`,
  );
  site.on('/book', `<title>Book</title><main><h1>Book</h1>${lines.join('')}</main>`);
  const first = await call('read_page', { url: site.url('/book') });
  const offset = Number(/read_page again with offset (\d+)\]$/.exec(first.text)?.[1]);
  assert.equal(offset, first.nextOffset);
  const second = await call('read_page', { url: site.url('/book'), offset });
  assert.ok(second.markdown.length > 1000 && site.count('/book') === 1);
});
