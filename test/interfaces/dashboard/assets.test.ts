// The files of the dashboard: size of the first load, headers, compression, paths behind a proxy, the prebuilt package.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { bundleDashboard, type Asset } from '../../../src/interfaces/dashboard/bundle.ts';
import { createDashboard } from '../../../src/interfaces/dashboard/index.ts';

const maxScriptBytes = 60_000;
const maxStyleBytes = 15_000;
const maxViewBytes = 20_000;

const built = bundleDashboard();

describe('dashboard files', () => {
  test('the first load is at most 60 kB of script and 15 kB of styles, gzipped', async () => {
    const { entries, assets } = await built;
    const byName = new Map(assets.map((asset) => [asset.name, asset]));
    const size = (names: Iterable<string>) =>
      [...names].reduce((sum, name) => sum + byName.get(name)!.gzip.length, 0);
    const first = loadedBy([entries.script, entries.worker], byName);
    assert.ok(first.size < assets.length, 'some parts are loaded later');
    const script = size(first);
    assert.ok(script <= maxScriptBytes, `${script} bytes of script`);
    assert.ok(size([entries.styles]) <= maxStyleBytes, `${size([entries.styles])} bytes of styles`);
  });

  test('a view adds at most 20 kB of script, gzipped, besides the chart and terminal libraries', async () => {
    const { entries, assets } = await built;
    const byName = new Map(assets.map((asset) => [asset.name, asset]));
    const first = loadedBy([entries.script, entries.worker], byName);
    const lazy = [...byName.values()].flatMap(({ name, bytes }) =>
      first.has(name)
        ? [...bytes.toString().matchAll(/import\("\.\/([^"]+)"\)/g)].map(([, target]) => target!)
        : [],
    );
    assert.ok(lazy.length >= 12, `${lazy.length} lazy views`);
    for (const name of lazy) {
      const added = [...loadedBy([name], byName)].filter((one) => !first.has(one));
      const own = added.filter((one) => !isLibrary(byName.get(one)!));
      const size = own.reduce((sum, one) => sum + byName.get(one)!.gzip.length, 0);
      assert.ok(size <= maxViewBytes, `${name} adds ${size} bytes`);
    }
  });

  test('documents are never cached, files forever; both carry the strict policy', async (t) => {
    const url = await serve(t);
    const page = await fetch(`${url}/jobs/job_0000000000000000`);
    assert.equal(page.status, 200);
    assert.equal(page.headers.get('cache-control'), 'no-cache');
    const html = await page.text();
    const script = /src="([^"]+)"/.exec(html)![1]!;
    assert.match(script, /^\.\.\/assets\/main-[A-Z0-9]+\.js$/, 'relative to the path of the view');
    const asset = await fetch(new URL(script, `${url}/jobs/x`));
    assert.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    for (const { headers } of [page, asset]) {
      const policy = headers.get('content-security-policy')!;
      assert.doesNotMatch(policy, /unsafe-/);
      for (const part of ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"])
        assert.ok(policy.includes(part), part);
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('referrer-policy'), 'no-referrer');
    }
    assert.doesNotMatch(html, /<script(?![^>]*src=)|<style|\son\w+=|\sstyle=/, 'nothing inline');
  });

  test('each encoding decodes to the same bytes', async (t) => {
    const url = await serve(t);
    const html = await (await fetch(url)).text();
    const script = new URL(/src="([^"]+)"/.exec(html)![1]!, `${url}/`);
    const read = async (encoding: string) => {
      const response = await fetch(script, { headers: { 'accept-encoding': encoding } });
      return { text: await response.text(), encoding: response.headers.get('content-encoding') };
    };
    const plain = await read('identity');
    assert.equal(plain.encoding, null);
    for (const encoding of ['br', 'gzip'])
      assert.deepEqual(await read(encoding), { text: plain.text, encoding });
  });

  test('other paths and methods belong to other handlers', async (t) => {
    const url = await serve(t);
    for (const path of ['/assets/../index.ts', '/assets/none.js', '/jobs/a/b', '/api/jobs', '/x'])
      assert.equal((await fetch(url + path)).status, 418, path);
    assert.equal((await fetch(`${url}/login`, { method: 'POST' })).status, 418);
    assert.equal((await fetch(`${url}/login`, { method: 'HEAD' })).status, 200);
  });
});

/** uPlot and xterm are measured with the first view of the dashboard. */
const isLibrary = ({ bytes }: Asset): boolean => /xterm-|u-over/.test(bytes.toString());

/** These files and everything they import statically. */
function loadedBy(names: string[], byName: ReadonlyMap<string, Asset>): Set<string> {
  const found = new Set(names);
  for (const name of found) {
    const code = byName.get(name)!.bytes.toString();
    for (const [, target] of code.matchAll(/(?:from|import)"\.\/([^"]+)"/g)) found.add(target!);
  }
  return found;
}

/** Bundled once: every test reads the same files. */
const dashboard = createDashboard();

async function serve(t: TestContext): Promise<string> {
  const server = createServer((request, response) => {
    const path = request.url!.split('?')[0]!;
    void dashboard.handle(request, response, { path }).then((isHandled) => {
      if (!isHandled) response.writeHead(418).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
