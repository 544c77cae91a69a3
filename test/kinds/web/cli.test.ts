// Web jobs as a person uses them: crawl, look, read page by page, map and search on the command line.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { html, startSite } from '../../fixtures/site/site.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer } from '../../helpers/server.ts';

test('a crawl on the command line: started, awaited, shown, read, searched', async (t) => {
  const site = await startSite(t, { pages: 12 });
  site.on('/p/4', html('gone', 404));
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const config = { egress: { allow: ['127.0.0.1'] }, web: { search: { engines: ['local'] } } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  const server = await startServer(t, { home });
  const started = await server.cli('crawl', site.url('/'), '--max-pages', '6');
  const id = /job_[0-9a-z]{16}/.exec(started.stdout)![0];
  assert.match(started.stdout, /errand pages/);
  assert.doesNotMatch(started.stdout, /[{}]/, 'no JSON for people');
  assert.equal((await server.cli('wait', id)).code, 0);
  const shown = await server.cli('show', id, '--json');
  const job = shown.json<{ stage: string; progress: object; result: { pages: number } }>();
  assert.deepEqual([job.stage, job.result.pages], ['limit', 6]);
  assert.deepEqual({ ...job.progress, message: '' }, { done: 6, total: 6, unit: 'pages', message: '' }); // prettier-ignore
  const list = await server.cli('pages', id);
  assert.match(list.stdout, /^N +FATE +STATUS +URL +TITLE\n1 +fetched +200 /);
  const first = await server.cli('pages', id, '--fields', 'markdown', '--limit', '1');
  assert.match(first.stdout, /^1 {2}fetched .*\n\n[^]*Number 0 part 0: /, 'the text is printed');
  assert.match(first.stderr, /--cursor 1/);
  const errors = await server.cli('pages', id, '--fates', 'errored');
  assert.match(errors.stdout, /errored +http404 +404 /, 'with the reason');
  assert.match((await server.cli('map', site.url('/'), '--limit', '3')).stdout, /^URL .*\n/);
  site.on('/lamp', html('<title>Lamp</title><dl><dt>Price</dt><dd>1.299,00 €</dd></dl>'));
  const lamp = await server.cli('extract', site.url('/lamp'), '--schema', '{"price":"number"}');
  assert.match(lamp.stdout, /^data +\{"price":1299\}$/m);
  const wrong = await server.cli('extract', site.url('/lamp'), '--schema', '{"type":"nothing","properties":{}}'); // prettier-ignore
  assert.match(wrong.stderr, /not a JSON Schema/);
  const text = await server.cli('read', site.url('/lamp'), '--include-selectors', 'dd');
  assert.equal(text.stdout, '1.299,00 €\n');
  const found = await server.cli('search', 'number part river');
  assert.match(found.stdout, /\/p\/\d/);
  assert.match(found.stderr, /No general web engine is configured/);
  const used = (await server.cli('usage', '--json')).json<{ rows: { action: string; calls: number }[] }>(); // prettier-ignore
  assert.equal(used.rows.find(({ action }) => action === 'crawl')!.calls, 1);
});
