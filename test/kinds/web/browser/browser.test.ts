// A real Chromium: screenshots, browsing, rendered crawls, the guard in front of it, and no process left behind.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { browserSkip, findChromium } from '../../../helpers/chromium.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb } from '../../../helpers/web.ts';

const found = await findChromium();
const skip = browserSkip(found);
const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 20 : 4;

function browserWeb(
  t: TestContext,
  more: Record<string, unknown> = {},
  trustCertificates: Record<string, string> = {},
) {
  return createWeb(t, { settings: { browser: { ...found, ...more } }, trustCertificates });
}

test(
  'a styled picture as file and image, browse with snapshot refs, evaluate and extract',
  { skip },
  async (t) => {
    const site = await startSite(t);
    site.on('/styled', (_request, response) =>
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(
          '<link rel=stylesheet href=/s.css><h1>Hello</h1><form><input id=q aria-label=Query><button type=button onclick="document.title=q.value;out.textContent=q.value">Go</button></form><p id=out></p>',
        ),
    );
    site.on('/s.css', html('body{background:rgb(1,2,3)}', 200, { 'content-type': 'text/css' }));
    const web = await browserWeb(t);
    const shot = await web.call('take_screenshot', {
      url: site.url('/styled'),
      width: 400,
      height: 300,
    });
    assert.equal(shot.status, 'completed');
    assert.ok(existsSync(shot.path as string));
    assert.ok(site.count('/s.css') > 0, 'style sheets are loaded');
    const [image] = web.operations.get('take_screenshot').content!(shot);
    assert.equal(image!.mimeType, 'image/jpeg');
    assert.deepEqual(readFileSync(shot.path as string).subarray(0, 2), Buffer.from([0xff, 0xd8]));
    const first = await web.call<{ results: { content: string }[] }>('browse_page', {
      url: site.url('/styled'),
      actions: [{ type: 'snapshot' }],
    });
    const ref = /button "Go".*?\[ref=(\w+)\]/.exec(first.results[0]!.content)?.[1];
    assert.ok(ref, first.results[0]!.content);
    const done = await web.call<{ success: boolean; title: string; results: { success: boolean; data?: unknown; content?: string; action: string }[] }>('browse_page', {
    url: site.url('/styled'),
    actions: [
      { type: 'snapshot' },
      { type: 'fill', selector: '#q', value: 'words' },
      { type: 'click', selector: `ref=${ref}` },
      { type: 'evaluate', script: 'getComputedStyle(document.body).backgroundColor' },
      { type: 'extract', format: 'text' },
      { type: 'select', selector: 'h1', value: 'x' },
      { type: 'screenshot' },
      { type: 'wait', selector: '#never', ms: 200 },
      { type: 'press', key: 'Enter' },
    ],
  }); // prettier-ignore
    assert.equal(done.title, 'words');
    const results = done.results;
    assert.equal(results[3]!.data, 'rgb(1, 2, 3)');
    assert.match(results[4]!.content!, /words/);
    assert.deepEqual(
      results.map((one) => one.success),
      [true, true, true, true, true, false, true, false],
    );
  },
);

test('pages are rendered, and a browser cannot bypass the egress policy', { skip }, async (t) => {
  const site = await startSite(t);
  const web = await browserWeb(t);
  const page = await web.call('read_page', { url: site.url('/js-only') });
  assert.match(page.markdown as string, /only a browser brings/);
  assert.equal(page.rendered, true);
  const end = await web.crawl({
    url: site.url('/js-only'),
    render: 'auto',
    sitemap: 'skip',
    formats: ['markdown', 'screenshot'],
  });
  assert.equal(end.result.pages, 2, 'links that scripts made are followed');
  for (const target of ['/to-metadata', '/to-private']) {
    await assert.rejects(web.call('take_screenshot', { url: site.url(target) }), {
      code: 'egressRefused',
    });
  }
  site.on(
    '/inside',
    html(
      '<h1>x</h1><img src="http://169.254.169.254/x.png"><iframe src="http://10.0.0.1/"></iframe>',
    ),
  );
  const inside = await web.call('take_screenshot', { url: site.url('/inside') });
  assert.equal(inside.status, 'completed');
});

test(
  'a rendered page: web components are read, what its style sheets hide is not',
  { skip },
  async (t) => {
    const site = await startSite(t);
    const hidden = ['none', 'size', 'away', 'clear', 'same', 'dot', 'veil'];
    const prose = 'words that a reader of the page sees and may rely on, '.repeat(5);
    site.on(
      '/parts',
      html(`<link rel=stylesheet href=/s.css><main><h1>Parts</h1><p>Light ${prose}</p><div id=host></div>
${hidden.map((name) => `<p class=${name}>INJECTION ${name}</p>`).join('')}
<script>host.attachShadow({mode:'open'}).innerHTML='<h2>Inner part</h2><p>Shadow ${prose}</p>'</script></main>`),
    );
    const css = `.none{display:none}.size{font-size:1px}.away{position:absolute;left:-99em;width:1em;font-size:99px}.clear{color:transparent}
.same{color:#fff;background:#fff}.dot{position:absolute;width:1px;height:1px;overflow:hidden}.veil{visibility:hidden}`;
    site.on('/s.css', html(css, 200, { 'content-type': 'text/css' }));
    // Only the proxy's own word counts.
    site.on('/pretender', html('<h1>Real</h1>', 200, { 'x-errand-error': 'unauthorized' }));
    const web = await browserWeb(t);
    const page = await web.call('read_page', { url: site.url('/parts'), render: 'always' });
    assert.match(
      page.markdown as string,
      /# Parts\n\nLight words[^]*## Inner part\n\nShadow words/,
    );
    const seen = await web.call<{ httpStatus: number; results: { content: string }[] }>('browse_page', {
    url: site.url('/parts'),
    actions: [{ type: 'extract' }, { type: 'extract', format: 'text' }, { type: 'extract', selector: '#host' }],
  }); // prettier-ignore
    assert.equal(seen.httpStatus, 200);
    assert.match(seen.results[2]!.content, /^## Inner part\n\nShadow words/);
    assert.doesNotMatch(JSON.stringify([page, seen]), /INJECTION/);
    const real = await web.call('take_screenshot', { url: site.url('/pretender') });
    assert.equal(real.httpStatus, 200);
  },
);

test(
  'browse goes where a person goes and nowhere else, and says what it met',
  { skip },
  async (t) => {
    const site = await startSite(t);
    site.on(
      '/start',
      html(`<title>Start</title><button onclick="this.textContent=confirm('Sure?')">Ask</button><a href="/tab" target="_blank">Tab</a>
<iframe src="/frame"></iframe><script>const ring = {}; ring.ring = ring</script>`),
    );
    site.on('/frame', html('<button onclick="parent.document.title=\'framed\'">Inside</button>'));
    site.on('/tab', html('<title>Tab</title><h1>In the tab</h1>'));
    site.on('/get.zip', html('PK', 200, { 'content-disposition': 'attachment' }));
    const web = await browserWeb(t);
    const browse = (actions: object[], more = {}) =>
      web.call<{
        success: boolean;
        title?: string;
        finalUrl?: string;
        stopReason?: string;
        results: (Record<string, unknown> & { error?: string; content?: string })[];
      }>('browse_page', { url: site.url('/start'), actions, ...more });
    const schemes = ['file:///etc/passwd', 'data:text/html,x', 'javascript:1', 'chrome://version', 'about:blank']; // prettier-ignore
    for (const url of schemes)
      await assert.rejects(browse([{ type: 'navigate', url }]), { code: 'invalidInput', message: /Only http: and https:/ }); // prettier-ignore
    const away = await browse([
      { type: 'navigate', url: 'http://10.0.0.1/' },
      { type: 'navigate', url: site.url('/nothing-here') },
    ]);
    assert.match(away.results[0]!.error!, /10\.0\.0\.1 is a private address.*egress\.allow/);
    assert.deepEqual(away.results[1]!.data, { url: site.url('/nothing-here'), httpStatus: 404 });
    const met = await browse([
      { type: 'click', selector: 'text=Ask' },
      { type: 'snapshot' },
      { type: 'click', selector: 'ref=e999' },
      { type: 'click', selector: 'ref=f1e2' },
      { type: 'evaluate', script: '() => document.title' },
      { type: 'evaluate', script: 'return await Promise.resolve(7n)' },
      { type: 'evaluate', script: 'ring' },
      { type: 'evaluate', script: '"x".repeat(1e6)' },
      { type: 'click', selector: 'text=Tab' },
      { type: 'extract', selector: 'h1', format: 'text' },
    ]);
    assert.deepEqual(met.results[0]!.dialogs, [{ type: 'confirm', message: 'Sure?' }]);
    assert.match(met.results[1]!.content!, /button "false"[^]*button "Inside" \[ref=f1e2\]/);
    assert.match(met.results[2]!.error!, /ref=e999 does not exist.*snapshot/);
    assert.equal(met.results[4]!.data, 'framed');
    assert.equal(met.results[5]!.data, '7');
    assert.match(met.results[6]!.error!, /circular/);
    assert.equal(met.results[7]!.truncated, true);
    assert.equal(met.results[8]!.newTab, site.url('/tab'));
    assert.equal(met.results[9]!.content, 'In the tab');
    assert.deepEqual([met.title, met.finalUrl, met.success], ['Tab', site.url('/tab'), false]);
    const late = await browse([{ type: 'extract', format: 'text' }, { type: 'wait', ms: 30_000 }], { timeoutMs: 4000 }); // prettier-ignore
    assert.deepEqual([late.stopReason, late.success, late.results.length], ['time', false, 1]);
    const short = await browse([{ type: 'evaluate', script: '"é".repeat(5000)' }, { type: 'extract', format: 'text' }], { maxBytes: 1000 }); // prettier-ignore
    assert.ok(Buffer.byteLength(short.results[0]!.content!) > 900, 'the short one left it more');
    assert.ok(Buffer.byteLength(JSON.stringify(short.results)) < 1300);
    assert.deepEqual(short.results.map(({ truncated }) => truncated), [true, undefined]); // prettier-ignore
    site.on(
      '/tall',
      html('<div style="height:60000px;background:linear-gradient(red,blue)">x</div>'),
    );
    for (let round = 0; round < 2; round++) {
      const tall = await web.call('take_screenshot', { url: site.url('/tall'), fullPage: true });
      assert.deepEqual([tall.width, tall.height], [640, 8000]);
      assert.match(String(tall.notice), /1280x60\d{3} px.*50 % and shows only the first 16000 px/);
      const next = await web.call('take_screenshot', { url: site.url('/tab'), format: 'png' });
      assert.equal(next.mimeType, 'image/png');
    }
    const file = web.call('browse_page', { url: site.url('/get.zip') });
    await assert.rejects(file, { code: 'browserFailed', message: /not a page: it is a download/ });
  },
);

test(
  'a browser killed in the middle is an error, and the next call has a new one; none is left over',
  { skip },
  async (t) => {
    const site = await startSite(t);
    site.on('/wait', html('<h1>Wait</h1>'));
    const web = await browserWeb(t, { idleMs: 200, maxPages: 5 });
    const mine = () => browserPids();
    const before = new Set(mine());
    const slow = web.call('browse_page', {
      url: site.url('/wait'),
      actions: [{ type: 'wait', ms: 20_000 }],
    });
    slow.catch(() => {});
    const started = await until('it runs', () =>
      site.count('/wait') > 0 ? mine().filter((pid) => !before.has(pid)) : undefined,
    );
    for (const pid of started) kill(pid);
    await assert.rejects(slow, { code: 'unavailable' });
    // Five concurrent runs per round; in every fourth round the browser is killed under them.
    for (let round = 0; round < rounds; round++) {
      const asked = site.count('/wait');
      const shots = Array.from({ length: 5 }, () =>
        web.call('take_screenshot', { url: site.url('/wait') }),
      );
      const ends = Promise.allSettled(shots);
      const isKilled = round % 4 === 3;
      if (isKilled) {
        await until('a page is being loaded', () => site.count('/wait') > asked);
        for (const pid of mine()) if (!before.has(pid)) kill(pid);
      }
      for (const end of await ends) {
        if (end.status === 'rejected')
          assert.match(String((end.reason as Error).message), /browser/i);
      }
      if (!isKilled) assert.equal((await ends).filter(isFulfilled).length, 5);
    }
    await until('the idle browser has ended', () => mine().every((pid) => before.has(pid)));
  },
);

test(
  'headers of a caller go to the site they are for and nowhere else; actions come before reading',
  { skip },
  async (t) => {
    const site = await startSite(t);
    const other = await startSite(t);
    other.on('/pixel.png', html('', 404));
    site.on('/moved', html('', 302, { location: other.url('/landed') }));
    other.on('/landed', html('<h1>Landed</h1>'));
    site.on('/keyed', html(`<h1>Keyed</h1><p id=out>closed</p><button onclick="out.textContent='opened'">o</button><img src=/own.png><img src="${other.url('/pixel.png')}"><iframe src=/moved></iframe>`)); // prettier-ignore
    const web = await browserWeb(t);
    const headers = { 'X-Key': 'secret' };
    const end = await web.crawl({
    url: site.url('/keyed'),
    maxPages: 1,
    sitemap: 'skip',
    headers,
    actions: [{ type: 'click', selector: 'button' }, { type: 'wait', selector: '#never', ms: 50 }],
  }); // prettier-ignore
    assert.equal(end.result.pages, 1);
    const { pages } = await web.call<{ pages: { markdown: string; detail: string }[] }>(
      'read_pages',
      { id: end.id, fields: ['markdown'] },
    );
    assert.match(pages[0]!.markdown, /opened/);
    assert.match(pages[0]!.detail, /^wait failed: /, 'failed actions are reported');
    await web.call('take_screenshot', { url: site.url('/keyed'), headers });
    await web.call('read_page', { url: site.url('/keyed'), headers, render: 'always' });
    assert.equal(site.hits.filter(({ path }) => path === '/own.png').length, 3);
    for (const { headers: sent, path } of site.hits)
      if (path !== '/robots.txt') assert.equal(sent['x-key'], 'secret', path);
    assert.ok(other.count('/pixel.png') > 0 && other.count('/landed') > 0);
    assert.ok(
      other.hits.every((hit) => hit.headers['x-key'] === undefined),
      'not even after a redirect',
    );
  },
);

test(
  'the browser accepts the certificates that the operator trusts, and no others',
  { skip },
  async (t) => {
    const file = (name: string) =>
      readFileSync(join(import.meta.dirname, '../../../fixtures/tls', name));
    const [key, cert] = [file('localhost.key.pem'), file('localhost.cert.pem')];
    const serve = async () => {
      const server = createServer({ key, cert }, (_request, response) =>
        response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Wiki</h1>'),
      ).listen(0, '127.0.0.1');
      t.after(() => server.close().closeAllConnections());
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    };
    const [own, other, changed] = [await serve(), await serve(), await serve()];
    const print = new X509Certificate(cert).fingerprint256;
    const web = await browserWeb(
      t,
      {},
      {
        [`127.0.0.1:${own}`]: print,
        [`127.0.0.1:${changed}`]: print.replace(/^../, (byte) => (byte === '00' ? '11' : '00')),
      },
    );
    const open = (port: number) =>
      web.call<{ title?: string; results: { data: unknown }[] }>('browse_page', {
        url: `https://127.0.0.1:${port}/`,
        actions: [{ type: 'evaluate', script: 'document.querySelector("h1").textContent' }],
      });
    assert.equal((await open(own)).results[0]!.data, 'Wiki');
    for (const port of [other, changed])
      await assert.rejects(open(port), {
        message: `The certificate of 127.0.0.1:${port} is not trusted (ERR_CERT_AUTHORITY_INVALID).`,
      });
  },
);

test(
  'a caller that stops waiting for the browser does not delay the others',
  { skip },
  async (t) => {
    const site = await startSite(t);
    const web = await browserWeb(t, { maxPages: 1 });
    const browse = (ms: number) =>
      web.call<{ id: string }>('browse_page', {
        url: site.url('/target'),
        actions: [{ type: 'wait', ms }],
        waitMs: 0,
      });
    const holder = await browse(2500);
    await until('it is loaded', () => site.count('/target') === 1);
    const leaver = await browse(1);
    const last = await browse(1);
    await web.call('cancel_job', { id: leaver.id });
    const stateOf = async (id: string) => (await web.jobs.get(id)).status;
    await until('the last one had its turn', async () => (await stateOf(last.id)) === 'completed');
    assert.equal(await stateOf(holder.id), 'completed');
    assert.equal(await stateOf(leaver.id), 'cancelled');
  },
);

test('a crawl loses no page when its browser is killed', { skip }, async (t) => {
  const site = await startSite(t, { pages: 6 });
  const web = await browserWeb(t, { maxPages: 2 });
  const before = new Set(browserPids());
  const { id } = await web.call<{ id: string }>('crawl_site', {
    url: site.url('/'), render: 'always', sitemap: 'skip', concurrency: 2,
  }); // prettier-ignore
  await until('a page is being rendered', () => site.count('/p/1') > 0);
  for (const pid of browserPids()) if (!before.has(pid)) kill(pid);
  const job = await until(
    'it is over',
    async () => {
      const present = await web.jobs.get(id);
      return present.status === 'completed' ? present : undefined;
    },
    120_000,
  );
  assert.equal((job.result as { pages: number }).pages, 6);
});

test('without a browser the error says what to install', async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t, { settings: { browser: { path: '/nowhere/chrome' } } });
  await assert.rejects(web.call('take_screenshot', { url: site.url('/target') }), {
    code: 'noBrowser',
    hint: /web\.browser\.path/,
  });
  const page = await web.call('read_page', { url: site.url('/js-only') });
  assert.equal(page.needsBrowser, true, 'a page is still read as far as it goes');
  const start = { url: site.url('/js-only'), sitemap: 'skip' };
  const auto = await web.crawl({ ...start, render: 'auto' });
  assert.equal(auto.result.pages, 1);
  const { pages } = await web.call<{ pages: { detail: string }[] }>('read_pages', { id: auto.id });
  assert.match(pages[0]!.detail, /needs a browser.*not an executable program/);
  const always = await web.crawl({ ...start, render: 'always' });
  assert.deepEqual(always.result.reasons, { 'errored:noBrowser': 1 });
});

const isFulfilled = ({ status }: PromiseSettledResult<unknown>): boolean => status === 'fulfilled';

/** Processes of the browsers that this process started; other test files have theirs. */
function browserPids(): number[] {
  if (process.platform !== 'linux') {
    return execFileSync('pgrep', ['-f', 'playwright_chromiumdev'])
      .toString()
      .split('\n')
      .filter(Boolean)
      .map(Number);
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter(isMine);
}

function isMine(pid: number): boolean {
  try {
    return (
      /chrom/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')) &&
      !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')) &&
      parents(pid).includes(process.pid)
    );
  } catch {
    return false;
  }
}

function parents(pid: number): number[] {
  const found: number[] = [];
  for (let one = pid; one > 1 && found.length < 20;) {
    one = Number(readFileSync(`/proc/${one}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]);
    found.push(one);
  }
  return found;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone already
  }
}
