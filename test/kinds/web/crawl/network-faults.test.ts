// Network failures in a crawl: each URL gets its outcome, and fetched pages are kept.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer as createTlsServer } from 'node:https';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { html, resolveTest, startSite, type Site } from '../../../fixtures/site/site.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { startServer } from '../../../helpers/server.ts';
import { createWeb, outcomesOf, type Web, type WebOptions } from '../../../helpers/web.ts';

const links = (urls: readonly string[]): string =>
  `<h1>Start</h1><p>A page with links.</p>${urls.map((url) => `<a href="${url}">x</a>`).join(' ')}`;

/** Crawls a page with these links and a good one, which must always be fetched. */
async function crawlWith(
  t: TestContext,
  urls: readonly string[],
  webOptions: WebOptions & { options?: object } = {},
): Promise<{ outcomes: Record<string, string>; web: Web; site: Site; id: string }> {
  const site = await startSite(t);
  site.on('/start', links([...urls, '/target']));
  const { settings, options, ...rest } = webOptions;
  const web = await createWeb(t, {
    allow: [`127.0.0.1:${site.port}`],
    ...rest,
    settings: { maxTries: 2, ...settings },
  });
  const end = await web.crawl({
    url: site.url('/start'),
    sitemap: 'skip',
    externalLinks: true,
    maxDepth: 2,
    pageTimeoutMs: 1500,
    ...options,
  });
  assert.equal(end.status, 'completed', JSON.stringify(end.error));
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/start'], 'fetched');
  assert.equal(outcomes['/target'], 'fetched', 'nothing that can be had is lost');
  assert.equal(
    end.result.pages,
    Object.values(outcomes).filter((outcome) => outcome === 'fetched').length,
  );
  return { outcomes, web, site, id: end.id };
}

/** A server below HTTP: it does with the bytes of a request what it likes. */
async function rawServer(t: TestContext, answer: (socket: Socket, path: string) => void) {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', (bytes) => {
      const path = bytes.toString('latin1').split(' ')[1] ?? '/';
      if (path === '/robots.txt') socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
      else answer(socket, path);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a host name that changes to a private address during a crawl is refused at connect time', async (t) => {
  const site = await startSite(t);
  let asked = 0;
  const web = await createWeb(t, {
    allow: ['127.0.0.1'],
    settings: { maxTries: 1 },
    resolve: (host, done) => {
      if (host !== 'flip.test') return resolveTest(host, done);
      asked++;
      const address = asked <= 2 ? '127.0.0.1' : '169.254.169.254';
      done(null, [{ address, family: 4 }]);
    },
  });
  const closing = (body: string) => html(body, 200, { connection: 'close' });
  site.on('/robots.txt', html('', 404, { connection: 'close' }));
  site.on('/', closing(links(['/p/1', '/p/2'])));
  const end = await web.crawl({ url: site.url('/', 'flip.test'), sitemap: 'skip', concurrency: 1 });
  assert.equal(end.status, 'completed');
  assert.equal(end.result.pages, 1, 'what was fetched before is kept');
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/p/1'], 'errored:egressRefused');
  assert.equal(outcomes['/p/2'], 'errored:egressRefused');
  assert.ok(asked > 2, 'the name was resolved for every connection');
  assert.equal(site.count('/p/1'), 0);
});

test('redirects, links and sitemaps to metadata and private addresses end as refused', async (t) => {
  const tricks = [
    'http://169.254.169.254/aws/', 'http://[fd00:ec2::254]/ec2/', 'http://metadata.test/gcp/', 'http://0x7f.1/hex/',
    'http://2130706433/dec/', 'http://0177.0.0.1/oct/', 'http://[::ffff:10.0.0.1]/mapped/', 'http://[64:ff9b::a9fe:a9fe]/nat/',
    'http://[2002:7f00:1::]/six/', 'http://168.63.129.16/azure/', 'http://100.100.100.200/ali/', 'http://localhost./dot/',
  ]; // prettier-ignore
  const { outcomes } = await crawlWith(t, ['/to-metadata', '/to-private', '/to-file', ...tricks], {
    settings: { maxTries: 1 },
    resolve: (host, done) => {
      const address = host === 'metadata.test' ? '169.254.169.254' : '127.0.0.1';
      done(null, [{ address, family: 4 }]);
    },
  });
  assert.equal(outcomes['/to-metadata'], 'redirected');
  assert.equal(outcomes['/latest/meta-data/'], 'errored:egressRefused');
  for (const trick of tricks)
    assert.equal(outcomes[new URL(trick).pathname], 'errored:egressRefused', trick);
});

test('URLs with other schemes are never requested', async (t) => {
  const site = await startSite(t);
  const odd = ['mailto:a@b.c', 'tel:1', 'data:text/html,x', 'blob:x', 'file:///etc/passwd', 'gopher://a.test/', 'ws://a.test/', 'view-source:http://a.test/']; // prettier-ignore
  site.on('/odd', links([...odd, '/target', 'http://', 'http:///', '//', 'http://a b/']));
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/odd'), sitemap: 'skip', externalLinks: true });
  assert.deepEqual(
    [end.status, end.result.pages, end.result.outcomes.errored ?? 0],
    ['completed', 2, 0],
  );
});

test('no route, a closed port and an unknown host each have their own reason', async (t) => {
  const dead = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => dead.once('listening', resolve));
  const { port } = dead.address() as AddressInfo;
  await new Promise((resolve) => dead.close(resolve));
  const { outcomes, web, id } = await crawlWith(
    t,
    [
      'http://[2001:db8::9]/route/',
      `http://127.0.0.1:${port}/nobody/`,
      'http://no.name.invalid/name/',
    ],
    {
      allow: ['127.0.0.1', '2001:db8::/32'],
      settings: { maxTries: 1 },
    },
  );
  assert.match(outcomes['/route/']!, /^errored:(connect|timeout|connection)$/);
  assert.equal(outcomes['/nobody/'], 'errored:connect');
  assert.equal(outcomes['/name/'], 'errored:dns');
  const { pages } = await web.call<{ pages: { detail: string }[] }>('read_pages', {
    id, url: 'http://no.name.invalid/name/',
  }); // prettier-ignore
  assert.match(pages[0]!.detail, /could not be fetched/);
});

test('an untrusted certificate is reported and not retried', async (t) => {
  const file = (name: string) =>
    readFileSync(join(import.meta.dirname, '../../../fixtures', 'tls', name));
  let hits = 0;
  const tls = createTlsServer(
    { key: file('localhost.key.pem'), cert: file('localhost.cert.pem') },
    (_request, response) => {
      hits++;
      response.end('x');
    },
  ).listen(0, '127.0.0.1');
  t.after(() => tls.close());
  await new Promise((resolve) => tls.once('listening', resolve));
  const { port } = tls.address() as AddressInfo;
  const { outcomes, web, id } = await crawlWith(
    t,
    [`https://127.0.0.1:${port}/untrusted/`],
    { allow: ['127.0.0.1'], settings: { maxTries: 3 } },
  ); // prettier-ignore
  assert.equal(outcomes['/untrusted/'], 'errored:tls');
  assert.equal(hits, 0);
  const { pages } = await web.call<{ pages: { url: string; detail: string }[] }>('read_pages', {
    id, outcomes: ['errored'],
  }); // prettier-ignore
  assert.ok(
    pages.every(({ detail }) => /certificate/i.test(detail)),
    JSON.stringify(pages),
  );
});

test('half-closed, truncated, invalid and endless responses each have an outcome', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n';
  const base = await rawServer(t, (socket, path) => {
    switch (path) {
      case '/fin/':
        return void socket.end();
      case '/reset/':
        return void socket.resetAndDestroy();
      case '/half-head/':
        return void socket.end('HTTP/1.1 200 OK\r\ncontent-ty');
      case '/half-body/':
        return void socket.end(`${head}content-length: 5000\r\n\r\n<p>half`);
      case '/half-chunk/':
        return void socket.end(`${head}transfer-encoding: chunked\r\n\r\n5\r\nab`);
      case '/two-lengths/':
        return void socket.end(`${head}content-length: 3\r\ncontent-length: 900\r\n\r\nabc`);
      case '/not-http/':
        return void socket.end('hello there, this is no HTTP\r\n\r\n');
      case '/packed/':
        return void socket.end(`${head}content-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd`);
      case '/unasked/':
        return void socket.end('HTTP/1.1 304 Not Modified\r\n\r\n');
      case '/loris-head/':
        return drip(socket, 'HTTP/1.1 200 OK\r\nx-a: ');
      case '/loris-body/':
        return drip(socket, `${head}content-length: 90000\r\n\r\n`);
      default:
        // Half-open on purpose: it has said all it will say, and keeps the line.
        socket.write(`${head}content-length: 100\r\n\r\n<p>open`);
    }
  });
  const paths = ['/fin/', '/reset/', '/half-head/', '/half-body/', '/half-chunk/', '/two-lengths/', '/not-http/', '/packed/', '/unasked/', '/loris-head/', '/loris-body/', '/open/']; // prettier-ignore
  const { outcomes } = await crawlWith(t, paths.map((path) => `${base}${path}`), {
    allow: ['127.0.0.1'],
    settings: { maxTries: 1, breakerFailures: 50 },
    options: { concurrency: 20 },
  }); // prettier-ignore
  const expected: Record<string, RegExp> = {
    '/two-lengths/': /^errored:(protocol|connection)$/,
    '/not-http/': /^errored:(protocol|connection)$/,
    '/packed/': /^errored:encoding$/,
    '/unasked/': /^errored:http304$/,
    '/loris-head/': /^errored:timeout$/,
    '/loris-body/': /^errored:timeout$/,
    '/open/': /^errored:timeout$/,
  };
  for (const path of paths)
    assert.match(
      outcomes[path] ?? 'absent',
      expected[path] ?? /^errored:(connection|protocol)$/,
      path,
    );
});

/** One byte now and then, for ever. */
function drip(socket: Socket, first: string): void {
  socket.write(first);
  const timer = setInterval(() => socket.write('a'), 50);
  socket.on('close', () => clearInterval(timer));
}

test('PDFs are pages; broken PDFs and mislabelled pictures have their outcome', async (t) => {
  const { outcomes, web, id } = await crawlWith(t, ['/paper.pdf', '/unlabelled-pdf', '/broken.pdf', '/lying-picture', '/lying-type']); // prettier-ignore
  assert.equal(outcomes['/paper.pdf'], 'fetched');
  assert.equal(outcomes['/unlabelled-pdf'], 'fetched');
  assert.match(outcomes['/broken.pdf']!, /^errored:unsupported$/);
  assert.equal(outcomes['/lying-type'], 'skipped:fileType');
  assert.match(outcomes['/lying-picture']!, /^(skipped:fileType|fetched)$/);
  const { pages } = await web.call<{ pages: { url: string; markdown: string }[] }>('read_pages', {
    id, fields: ['markdown'],
  }); // prettier-ignore
  const paper = pages.find(({ url }) => url.endsWith('/paper.pdf'))!;
  assert.match(paper.markdown, /<!-- page 1 -->\s+A paper about lanterns/);
});

test('proxy settings of the environment and of callers have no effect', async (t) => {
  const site = await startSite(t, { pages: 3 });
  let proxied = 0;
  const inside = await rawServer(t, (socket) => {
    proxied++;
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ninside');
  });
  const names = [
    'HTTP_PROXY',
    'HTTPS_PROXY',
    'ALL_PROXY',
    'http_proxy',
    'https_proxy',
    'all_proxy',
  ];
  const env = Object.fromEntries(names.map((name) => [name, inside]));
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify({ egress: { allow: ['127.0.0.1'] } }));
  const server = await startServer(t, { home, env: { ...env, NODE_USE_ENV_PROXY: '1' } });
  const read = await server.api('POST', '/api/web/read', { url: site.url('/p/1') });
  const refused = await server.api('POST', '/api/web/read', { url: 'http://10.0.0.1/' });
  assert.equal(refused.json<{ code: string }>().code, 'egressRefused');
  assert.equal(proxied, 0, 'no request took the way of a proxy');
  assert.match(read.text, /Number 1/);
  const asked = { url: site.url('/p/1'), proxy: inside };
  const direct = await server.api('POST', '/api/web/read', asked);
  assert.equal(direct.json<{ code: string }>().code, 'invalidInput');
  assert.equal(proxied, 0);
});
