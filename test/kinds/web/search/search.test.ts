// Search with engines on loopback: order, diagnosis, keyless sources, and notices about what could not be
// searched.
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import type { AppError } from '../../../../src/errors.ts';
import { Searcher } from '../../../../src/kinds/web/search/search.ts';
import { searchSettings } from '../../../../src/kinds/web/search/settings.ts';
import type { SearchKind } from '../../../../src/kinds/web/search/types.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { createEgress } from '../../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../../src/runtime/log.ts';

type Handler = (request: IncomingMessage, response: ServerResponse, url: URL) => void;

let handle: Handler = (_request, response) => void response.writeHead(404).end();
const seen: { url: URL; headers: IncomingMessage['headers']; method: string }[] = [];
const server = createServer((request, response) => {
  const url = new URL(request.url!, 'http://localhost');
  seen.push({ url, headers: request.headers, method: request.method! });
  handle(request, response, url);
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const egress = createEgress({ policy: { allow: [] }, clock: systemClock, log: silentLog });
after(async () => {
  await egress.close();
  server.closeAllConnections();
  server.close();
});

function searcher(more: Record<string, unknown>, keys: Record<string, string> = {}): Searcher {
  const at = { url: base };
  const settings = searchSettings.parse({
    brave: at,
    tavily: at,
    searchclaw: at,
    wikipedia: at,
    commons: at,
    openverse: at,
    gdelt: at,
    timeoutMs: 5000,
    ...more,
  });
  return new Searcher({ settings, egress, clock: systemClock, secret: (name) => keys[name] });
}

const { signal } = new AbortController();
const ask = (query: string, kind: SearchKind = 'web', count = 5) => ({ query, kind, count });
const json = (response: ServerResponse, value: unknown) => void response.end(JSON.stringify(value));

test('SearXNG rows are limited, deduplicated and name their engine', async () => {
  handle = (_request, response, url) =>
    json(response, {
      results:
        url.searchParams.get('pageno') === null
          ? [
              { title: 'One', url: 'https://a.test/', content: 'the <b>first</b>', engine: 'ddg' },
              { title: 'Again', url: 'http://www.a.test', content: '' },
              { title: 'Bad', url: 'javascript:alert(1)' },
            ]
          : [{ title: 'Two', url: 'https://b.test/', publishedDate: '2026-01-02T00:00:00' }],
      suggestions: ['more'],
      infoboxes: [{ infobox: 'Box', content: 'text', urls: [{ url: 'https://c.test/' }] }],
      unresponsive_engines: [['google', 'Suspended: too many requests']],
    });
  const answer = await searcher({ searxngUrl: base }).search(
    { ...ask('x'), freshness: 'week' },
    signal,
  );
  assert.deepEqual(
    answer.rows.map(({ title, engine, position, source, snippet }) => [
      title,
      engine,
      position,
      source,
      snippet,
    ]),
    [
      ['One', 'searxng', 1, 'ddg', 'the first'],
      ['Two', 'searxng', 2, undefined, ''],
    ],
  );
  assert.deepEqual(answer.suggestions, ['more']);
  assert.deepEqual(answer.infobox, { title: 'Box', content: 'text', url: 'https://c.test/' });
  assert.deepEqual(answer.engines[0]!.warnings, ['google: Suspended: too many requests']);
  assert.equal(answer.notice, undefined);
  assert.equal(seen.at(-1)!.url.searchParams.get('time_range'), 'week');
});

test('a SearXNG 403 is explained, and the next engine is used', async () => {
  handle = (request, response, url) => {
    if (url.pathname === '/search' && request.method === 'GET')
      return void response.writeHead(403).end('Forbidden');
    json(response, {
      web: { results: [{ title: 'B', url: 'https://b.test/', description: 'd' }] },
    });
  };
  const answer = await searcher({ searxngUrl: base }, { BRAVE_API_KEY: 'k' }).search(
    ask('x'),
    signal,
  );
  assert.deepEqual(
    answer.rows.map(({ engine }) => engine),
    ['brave'],
  );
  const [first] = answer.engines;
  assert.match(first!.problem!.hint!, /`- json` under `search: formats:`/);
  assert.match(answer.notice!, /searxng failed: SearXNG refused to return JSON/);
  assert.equal(seen.at(-1)!.headers['x-subscription-token'], 'k');
});

test('429, an HTML response, a timeout and an unreachable host each have their own error message', async () => {
  const failure = async (handler: Handler, more: Record<string, unknown> = {}) => {
    handle = handler;
    const error = await searcher({ engines: ['searxng'], searxngUrl: base, ...more })
      .search(ask('x'), signal)
      .then(
        () => assert.fail('it answered'),
        (reason: AppError) => reason,
      );
    return `${error.code} ${error.message} ${error.hint}`;
  };
  assert.match(await failure((_q, response) => void response.writeHead(429).end()), /limiter/);
  assert.match(
    await failure((_q, response) => void response.end('<html>login</html>')),
    /did not return JSON/,
  );
  assert.match(await failure(() => {}, { timeoutMs: 300 }), /did not respond in time/);
  assert.match(await failure(() => {}, { searxngUrl: 'http://127.0.0.1:9' }), /is not reachable/);
  assert.match(await failure((_q, response) => void response.writeHead(500).end()), /status 500/);
});

test('a truncated, oversized, corrupt or slow response is reported as a problem of the engine', async () => {
  const problem = async (handler: Handler) => {
    handle = handler;
    const engines = ['searxng', 'wikipedia'];
    const more = { engines, searxngUrl: `${base}/x`, timeoutMs: 400, maxResponseBytes: 2048 };
    const fallback = { query: { search: [{ title: 'Tide' }] } };
    const own: Handler = (request, response, url) =>
      url.pathname === '/w/api.php' ? json(response, fallback) : handler(request, response, url);
    handle = own;
    const { engines: reported, rows, notice } = await searcher(more).search(ask('x'), signal);
    assert.deepEqual(rows.map(({ engine }) => engine), ['wikipedia']); // prettier-ignore
    assert.match(notice!, /^searxng failed: /);
    return `${reported[0]!.problem!.code} ${reported[0]!.problem!.message}`;
  };
  const cut: Handler = (_request, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('{"results"');
    setImmediate(() => response.destroy());
  };
  assert.match(await problem(cut), /^unavailable SearXNG is not reachable/);
  assert.match(await problem((_q, response) => void response.end('x'.repeat(5000))), /^unavailable The response from SearXNG is too large/); // prettier-ignore
  assert.match(await problem((_q, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end('no gzip')), /^unavailable SearXNG/); // prettier-ignore
  assert.match(await problem((_q, response) => void response.writeHead(200).write('{')), /^timeout SearXNG did not respond in time/); // prettier-ignore
  const blocked = { results: [], unresponsive_engines: [['google', 'CAPTCHA'], ['bing', 'timeout']] }; // prettier-ignore
  assert.match(await problem((_q, response) => json(response, blocked)), /its engines failed: google: CAPTCHA; bing: timeout/); // prettier-ignore
});

/** Numbered engine rows 0, 1, 2 … */
const numbered = (from: number, to: number) =>
  Array.from({ length: Math.max(0, to - from) }, (_, i) => ({
    title: `${from + i}`,
    url: `https://r.test/${from + i}`,
    foreign_landing_url: `https://r.test/${from + i}`,
  }));

test('offset and count mean rows for every engine, regardless of its page size', async () => {
  const window = async (
    kind: SearchKind,
    keys: Record<string, string>,
    offset: number,
    count: number,
  ) => {
    const engines = Object.keys(keys).length > 0 ? { engines: ['brave', 'tavily', 'searchclaw'] } : kind === 'images' ? { engines: ['openverse'] } : { searxngUrl: base }; // prettier-ignore
    const { rows } = await searcher(engines, keys).search({ ...ask('x', kind, count), offset }, signal); // prettier-ignore
    return rows.map(({ title }) => Number(title));
  };
  const range = (from: number, to: number) => numbered(from, to).map(({ title }) => Number(title));
  handle = (_request, response, { searchParams, pathname }) => {
    const count = Number(searchParams.get('count') ?? searchParams.get('page_size') ?? 20);
    const page = pathname.startsWith('/v1/images') ? Number(searchParams.get('page')) - 1 : Number(searchParams.get('offset') ?? 0); // prettier-ignore
    assert.ok(count <= 20, 'at most the engine limit');
    const results = numbered(page * count, Math.min((page + 1) * count, 70));
    json(response, pathname.includes('/res/') ? { web: { results } } : { results });
  };
  const brave = { BRAVE_API_KEY: 'k' };
  assert.deepEqual(await window('web', brave, 0, 10), range(0, 10));
  assert.deepEqual(await window('web', brave, 15, 10), range(15, 25));
  assert.deepEqual(await window('web', brave, 5, 50), range(5, 55));
  assert.deepEqual(await window('web', brave, 60, 50), range(60, 70));
  assert.deepEqual(await window('images', {}, 15, 10), range(15, 25));
  handle = (request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => json(response, { results: numbered(0, (JSON.parse(body) as { max_results: number }).max_results) })); // prettier-ignore
  };
  assert.deepEqual(await window('web', { TAVILY_API_KEY: 'k' }, 5, 10), range(5, 15));
  assert.deepEqual(await window('web', { TAVILY_API_KEY: 'k' }, 20, 10), []);
  handle = (_request, response, { searchParams }) => {
    const page = Number(searchParams.get('pageno') ?? 1);
    if (page === 4) return void response.writeHead(429).end();
    // SearXNG pages overlap.
    json(response, { results: numbered(Math.max(0, page * 10 - 12), page * 10) });
  };
  assert.deepEqual(await window('web', {}, 25, 5), range(25, 30));
  assert.deepEqual(await window('web', {}, 25, 10), range(25, 30), 'a failed page does not discard the rows before it'); // prettier-ignore
  let pages = 0;
  handle = (_request, response, { searchParams }) => {
    const page = Number(searchParams.get('pageno') ?? 1);
    const results = numbered(page * 10 - 10, page * 10);
    if (++pages < 3) json(response, { results });
  };
  const slow = searcher({ searxngUrl: base, timeoutMs: 600 });
  const { rows, engines } = await slow.search(ask('x', 'web', 50), signal);
  assert.deepEqual(rows.map(({ title }) => Number(title)), range(0, 20)); // prettier-ignore
  assert.match(engines[0]!.warnings![0]!, /its page 3: SearXNG did not respond in time/);
});

test('filters that an engine does not support are reported', async () => {
  handle = (_request, response) => json(response, { query: { search: [{ title: 'Tide' }] } });
  const request = { ...ask('tide'), freshness: 'day', language: 'de', country: 'ch' } as const;
  const { notice, engines } = await searcher({ engines: ['wikipedia'] }).search(request, signal);
  assert.deepEqual(engines[0]!.ignored, ['country', 'freshness']);
  assert.match(
    notice!,
    /wikipedia does not support country, freshness, so its rows are not filtered/,
  );
  handle = (_request, response) => json(response, { results: numbered(0, 1) });
  const asked = await searcher({ searxngUrl: base }).search(request, signal);
  assert.equal(asked.notice, undefined);
  assert.equal(seen.at(-1)!.url.searchParams.get('language'), 'de-CH');
  const feed = (days: number) => `<item><title>Tide ${days}</title><link>https://f.test/${days}</link><pubDate>${new Date(Date.now() - days * 86_400_000).toUTCString()}</pubDate></item>`; // prettier-ignore
  handle = (_request, response) => void response.end(`<rss><channel><title>F</title>${feed(0)}${feed(3)}${feed(60)}</channel></rss>`); // prettier-ignore
  const feeds = searcher({ engines: ['feeds'], feeds: [`${base}/feed`] });
  const news = await feeds.search({ ...ask('tide', 'news'), freshness: 'week' }, signal);
  assert.deepEqual(news.rows.map(({ title }) => title), ['Tide 0', 'Tide 3']); // prettier-ignore
  handle = (_request, response) => void response.writeHead(500).end();
  await assert.rejects(feeds.search(ask('tide', 'news'), signal), /No feed could be read/);
  await assert.rejects(searcher({ engines: ['wikipedia'] }).suggest('ti', signal), /All engines failed. wikipedia: Wikipedia responded with status 500/); // prettier-ignore
});

test('without a general engine, Wikipedia and crawled pages are searched, with a notice', async () => {
  handle = (_request, response) =>
    json(response, {
      query: { search: [{ title: 'Tide table', snippet: 'a <span>tide</span> &amp; table' }] },
    });
  const settings = searchSettings.parse({ wikipedia: { url: base }, timeoutMs: 5000 });
  const pages = {
    searchPages: (query: string, { limit }: { limit: number }) =>
      Promise.resolve([{ url: 'https://mine.test/', title: 'Mine', snippet: `${query} ${limit}` }]),
  };
  const local = new Searcher({
    settings,
    egress,
    clock: systemClock,
    secret: () => undefined,
    pages,
  });
  const answer = await local.search(ask('tide'), signal);
  assert.deepEqual(
    answer.rows.map(({ engine, url, snippet }) => [engine, url, snippet]),
    [
      ['local', 'https://mine.test/', 'tide 5'],
      ['wikipedia', `${base}/wiki/Tide_table`, 'a tide & table'],
    ],
  );
  assert.match(answer.notice!, /No general web engine is configured.*searxngUrl/);
});

test('images come from Openverse and Commons, news from GDELT and feeds', async () => {
  handle = (_request, response, url) => {
    if (url.pathname === '/v1/images/') {
      return json(response, {
        results: [
          {
            title: 'Sea',
            foreign_landing_url: 'https://o.test/1',
            url: 'https://o.test/1.jpg',
            width: 10,
            height: 20,
            license: 'by',
          },
        ],
      });
    }
    if (url.pathname === '/w/api.php') {
      return json(response, {
        query: {
          pages: [
            {
              title: 'File:Sea.jpg',
              index: 1,
              imageinfo: [
                {
                  descriptionurl: 'https://c.test/f',
                  url: 'https://c.test/f.jpg',
                  width: 1,
                  height: 2,
                },
              ],
            },
          ],
        },
      });
    }
    if (url.pathname === '/api/v2/doc/doc') {
      return json(response, {
        articles: [
          {
            title: 'Storm',
            url: 'https://n.test/',
            seendate: '20260102T030405Z',
            domain: 'n.test',
          },
        ],
      });
    }
    response.end(
      '<rss><channel><title>My feed</title><item><title>Storm at sea</title><link>https://f.test/1</link><pubDate>Fri, 02 Jan 2026 00:00:00 GMT</pubDate></item><item><title>Calm</title><link>https://f.test/2</link></item></channel></rss>',
    );
  };
  const all = searcher({ feeds: [`${base}/feed`] });
  const images = await all.search(ask('sea', 'images'), signal);
  assert.deepEqual(
    images.rows.map(({ engine, title, imageUrl, width }) => [engine, title, imageUrl, width]),
    [
      ['openverse', 'Sea', 'https://o.test/1.jpg', 10],
      ['commons', 'Sea', 'https://c.test/f.jpg', 1],
    ],
  );
  const news = await all.search(ask('storm', 'news'), signal);
  assert.deepEqual(
    news.rows.map(({ engine, title, published }) => [engine, title, published]),
    [
      ['gdelt', 'Storm', '2026-01-02T03:04:05.000Z'],
      ['feeds', 'Storm at sea', '2026-01-02T00:00:00.000Z'],
    ],
  );
  handle = (_request, response) => void response.end('Your query was too short.');
  await assert.rejects(
    searcher({ feeds: [`${base}/feed`] }).search(ask('x', 'news'), signal),
    /gdelt: GDELT rejected the query: Your query was too short.*feeds: .*not a feed/,
  );
});

test('Tavily and SearchClaw requests use their own parameters', async () => {
  handle = (_request, response) =>
    json(response, {
      results: [
        {
          title: 'T',
          url: 'https://t.test/',
          content: 'c',
          snippet: 's',
          published_date: '2026-02-03',
        },
      ],
    });
  const tavily = await searcher({}, { TAVILY_API_KEY: 'tk' }).search(ask('q', 'news'), signal);
  assert.deepEqual(
    [tavily.rows[0]!.engine, tavily.rows[0]!.published],
    ['tavily', '2026-02-03T00:00:00.000Z'],
  );
  assert.deepEqual(
    [seen.at(-1)!.method, seen.at(-1)!.headers.authorization],
    ['POST', 'Bearer tk'],
  );
  const claw = await searcher({}, { SEARCHCLAW_API_KEY: 'sk' }).search(ask('q'), signal);
  assert.deepEqual([claw.rows[0]!.engine, claw.rows[0]!.snippet], ['searchclaw', 's']);
  assert.equal(seen.at(-1)!.headers['x-api-key'], 'sk');
});

test('suggestions come from the first engine that returns any', async () => {
  handle = (_request, response, url) => {
    if (url.pathname === '/autocompleter') return json(response, ['ti', []]);
    json(response, ['ti', ['tide', 'tile'], [], []]);
  };
  const answer = await searcher({ searxngUrl: base }).suggest('ti', signal);
  assert.deepEqual(answer.suggestions, ['tide', 'tile']);
  assert.deepEqual(
    answer.engines.map(({ engine }) => engine),
    ['searxng', 'wikipedia'],
  );
});

test('empty and overlong queries are rejected, and disabled engines are not used', async () => {
  await assert.rejects(searcher({}).search(ask('  '), signal), /query is empty/);
  await assert.rejects(searcher({}).search(ask('x'.repeat(3000)), signal), /longer than/);
  await assert.rejects(
    searcher({ engines: ['gdelt'] }).search(ask('x'), signal),
    (error: AppError) =>
      /No engine for web is configured/.test(error.message) && /searxngUrl/.test(error.hint!),
  );
});
