// How a browser starts: never as root, and what happens when it cannot start at all.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { browserSkip, findChromium } from '../../../helpers/chromium.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { createWeb } from '../../../helpers/web.ts';

const found = await findChromium();
const nobody = 65_534;

/** A program that prints this and ends, as a browser does that cannot start; every start adds a line to `starts`. */
function brokenBrowser(t: TestContext, lines: string[]) {
  const folder = tempFolder(t);
  const starts = join(folder, 'starts');
  const path = join(folder, 'chromium');
  const prints = lines.map((line) => `echo '${line}' >&2`).join('\n');
  writeFileSync(starts, '');
  writeFileSync(path, `#!/bin/sh\necho start >> '${starts}' 2>/dev/null\n${prints}\nexit 1\n`, {
    mode: 0o755,
  });
  return { path, starts: () => readFileSync(starts, 'utf8').split('\n').length - 1 };
}

test('the browser never runs as root', { skip: browserSkip(found) }, async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t, { settings: { browser: { ...found, idleMs: 60_000 } } });
  await web.call('take_screenshot', { url: site.url('/target') });
  const users = browserUsers();
  assert.ok(users.length > 1, 'the browser runs');
  const expected = process.getuid!() === 0 ? nobody : process.getuid!();
  assert.deepEqual([...new Set(users)], [expected]);
});

test('a browser that cannot start is quoted, and the setting is named', async (t) => {
  const site = await startSite(t);
  const own =
    'Running as root without --no-sandbox is not supported. See https://crbug.com/638180.';
  const prefix = '[1:1:1118/040234.46:ERROR:content/browser/zygote_host_impl_linux.cc:103] ';
  const browser = brokenBrowser(t, ['DevTools listening', prefix + own]);
  const settings = { browser: { path: browser.path, sandbox: false } };
  const web = await createWeb(t, { settings });
  await assert.rejects(web.call('take_screenshot', { url: site.url('/target') }), {
    code: 'noBrowser',
    message: `The browser ${browser.path} cannot start: ${own}`,
    hint: /web\.browser\.sandbox to false in config\.json/,
  });
});

test('a browser that cannot start is never worse than no browser', async (t) => {
  const site = await startSite(t);
  const links = '<a href=/thin/b>b</a> <a href=/thin/c>c</a>';
  const script = '<div id=root></div><script src=/app.js></script>';
  for (const name of ['a', 'b', 'c'])
    site.on(`/thin/${name}`, html(`<title>Thin ${name}</title>${script}${links} ${name}`));
  const browser = brokenBrowser(t, ['chromium: error while loading shared libraries: libnss3.so']);
  const settings = { browser: { path: browser.path, sandbox: false } };
  const web = await createWeb(t, { settings });
  const page = await web.call('read_page', { url: site.url('/js-only') });
  assert.equal(page.needsBrowser, true);
  const crawl = await web.crawl({ url: site.url('/thin/a'), render: 'auto', sitemap: 'skip' });
  assert.deepEqual([crawl.status, crawl.result.pages], ['completed', 3]);
  const { pages } = await web.call<{ pages: { detail: string }[] }>('read_pages', { id: crawl.id });
  for (const { detail } of pages) assert.match(detail, /needs a browser.*libnss3\.so/);
  assert.equal(browser.starts(), 1, 'a failed start is remembered');
});

test(
  'a page that the browser cannot load is read without it',
  { skip: browserSkip(found) },
  async (t) => {
    const site = await startSite(t);
    // Only the first request is answered: the browser waits for the second until its time is over.
    site.on('/once', (request, response) => {
      if (site.count('/once') === 1)
        html('<title>Once</title><div id=root></div><script src=/app.js></script>')(
          request,
          response,
        );
    });
    const web = await createWeb(t, { settings: { browser: found } });
    const page = await web.call('read_page', { url: site.url('/once'), timeoutMs: 3000 });
    assert.deepEqual([page.title, page.needsBrowser], ['Once', true]);
    assert.equal(site.count('/once'), 2);
  },
);

/** The users of all browser processes that this process started. */
function browserUsers(): number[] {
  const status = (pid: string) => readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (pid: string, name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status(pid))?.[1]);
  const isOurs = (pid: string): boolean => {
    for (let one = pid; Number(one) > 1; one = String(field(one, 'PPid')))
      if (Number(one) === process.pid) return true;
    return false;
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return /--type=|--remote-debugging-pipe/.test(command) && isOurs(pid)
          ? [field(pid, 'Uid')]
          : [];
      } catch {
        return [];
      }
    });
}
