// SearchClaw's HTTP over a real server: the headers its clients read, and what its browser paths answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { browserSkip, findChromium } from '../../helpers/chromium.ts';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import type { TestServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

const browser = await findChromium();
const skip = browserSkip(browser);

const post = async (
  server: Pick<TestServer, 'url' | 'key'>,
  path: string,
  body: object,
  accept = '*/*',
) => {
  const headers = { 'x-api-key': server.key, 'content-type': 'application/json', accept };
  const url = `${server.url}/searchclaw/v1${path}`;
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
};

test('every response reports the credits of the month and the rate limit', async (t) => {
  const { server, site } = await openFirecrawl(t);
  const scopes = ['read', 'run'];
  const made = await server.api('POST', '/api/keys', { owner: 'guest', scopes });
  const guest = { url: server.url, key: made.json<{ key: string }>().key };
  await post(guest, '/markdown', { url: site.url('/p/1') });
  const { headers } = await post(guest, '/search', { q: 'target' });
  assert.equal(headers.get('x-credits-used'), '2');
  assert.equal(headers.get('x-credits-remaining'), null, 'there is no budget');
  assert.equal(headers.get('x-ratelimit-limit'), '1000');
  assert.ok(Number(headers.get('x-ratelimit-remaining')) >= 1900);
  assert.ok(Number(headers.get('x-ratelimit-reset')) * 1000 > Date.now() - 1000);
  const own = await post(server, '/search', { q: 'target' });
  assert.equal(own.headers.get('x-credits-used'), '1', 'of its own owner');
  assert.equal(own.headers.get('x-ratelimit-limit'), null, 'workers are not limited');
  const command = await server.api('POST', '/api/commands', { command: 'true', waitMs: 0 });
  const foreign = `/searchclaw/v1/jobs/${command.json<Json>().id}`;
  assert.equal((await server.api('GET', foreign)).status, 404, 'not work of the web');
  const images = (await (await post(server, '/search/images', { q: 'x' })).json()) as Json;
  assert.equal(images.results.length, 1);
});

test(
  'pictures come as the original sends them, and pages that grow are read to their end',
  { skip },
  async (t) => {
    const { server, site } = await openFirecrawl(t, browser);
    const url = site.url('/p/1');
    const shot = (await (await post(server, '/screenshot', { url })).json()) as Json;
    assert.equal(shot.format, 'png');
    assert.equal(Buffer.from(shot.image_base64, 'base64').toString('latin1', 1, 4), 'PNG');
    const raw = await post(server, '/screenshot', { url, format: 'jpeg' }, 'image/*');
    assert.equal(raw.headers.get('content-type'), 'image/jpeg');
    assert.deepEqual([...new Uint8Array(await raw.arrayBuffer()).subarray(0, 2)], [0xff, 0xd8]);
    const actions = [
      { type: 'evaluate', expression: 'innerWidth' },
      { type: 'screenshot' },
      { type: 'extract', selector: 'h1' },
      { type: 'wait', selector: '#never', timeout: 100 },
      { type: 'click', selector: 'h1' },
    ];
    const request = { url, actions, viewport: { width: 500, height: 400 }, user_agent: 'x' };
    const browsed = (await (await post(server, '/browse', request)).json()) as Json;
    const [width, picture, heading, wait, ...rest] = browsed.results;
    assert.equal(width.data, 500);
    assert.deepEqual([...Buffer.from(picture.data, 'base64').subarray(0, 2)], [0xff, 0xd8]);
    assert.equal(heading.content, 'Page 1', 'text is its default');
    assert.deepEqual([wait.success, rest], [false, []], 'a failed wait ends the list');
    assert.match(browsed.notice, /user_agent/);
    site.on('/feed', html(`<main><h1>Feed</h1><div id=all></div></main><style>p{height:900px}</style><script>
    let n = 0; const more = () => { if (n < 6) all.insertAdjacentHTML('beforeend', '<p>Entry ' + ++n + ' of the feed is here.</p>'); };
    more(); addEventListener('scroll', () => setTimeout(more, 30));</script>`)); // prettier-ignore
    const pagination = { type: 'infinite_scroll', max_pages: 20 };
    const started = (await (await post(server, '/crawl', { url: site.url('/feed'), pagination })).json()) as Json; // prettier-ignore
    const done = await until('the feed is read', async () => {
      const headers = { 'x-api-key': server.key };
      const answer = await fetch(`${server.url}/searchclaw/v1/jobs/${started.job_id}`, { headers });
      const status = (await answer.json()) as Json;
      return status.meta === null ? undefined : status;
    });
    assert.equal(done.status, 'completed');
    assert.equal(done.data.length, 1);
    assert.match(done.data[0].markdown, /Entry 6 of the feed/);
  },
);
