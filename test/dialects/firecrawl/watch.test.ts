// Firecrawl's own watcher, unmodified: it opens a WebSocket and hears of every document of a crawl that goes on.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:http';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import { until } from '../../helpers/until.ts';

test('the watcher of firecrawl-js gets each document and, at the end, all of them', async (t) => {
  const { client, site } = await openFirecrawl(t);
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  const seven = html('<h1>Seven</h1><p>At last.</p>');
  site.on('/p/7', (...asked) => void gate.then(() => seven(...asked)));
  const started = await client.startCrawl(site.url('/'), { limit: 40, sitemap: 'skip' });
  const watcher: Json = client.watcher(started.id, { kind: 'crawl', pollInterval: 1 });
  const documents: Json[] = [];
  const states: string[] = [];
  const errors: Json[] = [];
  watcher.on('document', (one: Json) => documents.push(one));
  watcher.on('snapshot', (one: Json) => states.push(one.status));
  watcher.on('error', (one: Json) => errors.push(one));
  const done = once(watcher, 'done');
  const ended = watcher.start();
  await until('documents come while it runs', () => documents.length >= 20);
  assert.deepEqual(
    [...new Set(states)],
    ['scraping'],
    'reported by the WebSocket, without polling',
  );
  open();
  const [last] = await done;
  await ended;
  assert.deepEqual(errors, []);
  assert.equal(last.status, 'completed');
  assert.equal(last.data.length, 40);
  assert.equal(documents.length, 40, 'each document is sent once');
});

test('the watcher works for a batch and an ended crawl, rejects other owners, and leaves the plain status unchanged', async (t) => {
  const { client, site, server } = await openFirecrawl(t);
  site.on('/slow', (_request, response) => {
    setTimeout(() => html('<h1>Slow</h1>')(_request, response), 300);
  });
  const batch = await client.startBatchScrape([site.url('/p/1'), site.url('/slow')]);
  const watched = async (id: string, kind: string): Promise<Json> => {
    const watcher: Json = client.watcher(id, { kind, pollInterval: 1 });
    const done = once(watcher, 'done');
    await watcher.start();
    return (await done)[0];
  };
  assert.equal((await watched(batch.id, 'batch')).data.length, 2);
  assert.equal((await watched(batch.id, 'batch')).status, 'completed', 'even after the end');
  const url = `${server.url.replace('http', 'ws')}/firecrawl/v2/crawl/${batch.id}`;
  for (const protocols of [[], ['not-a-key']]) {
    const socket = new WebSocket(url, protocols);
    await once(socket, 'error');
  }
  const plain = await statusOf(`${server.url}/firecrawl/v2/batch/scrape/${batch.id}`, {
    authorization: `Bearer ${server.key}`,
    connection: 'Upgrade, HTTP2-Settings',
    upgrade: 'h2c',
  });
  assert.equal(plain, 200, 'other upgrades are not ours to take');
  const silent = await client.startBatchScrape([site.url('/silent')]);
  const left = new WebSocket(url.replace(batch.id, silent.id), server.key);
  await once(left, 'message');
  const closed = once(left, 'close');
  assert.equal(await server.stop(), 0, 'who watches does not keep a server from ending');
  await closed;
});

function statusOf(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    }).on('error', reject);
  });
}
