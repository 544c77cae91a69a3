// Web jobs as a person uses them: crawl, look, read page by page, map and search on the command line.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { html, startSite, type Handler } from '../../fixtures/site/site.ts';
import { browserSkip, findChromium, withoutBrowser } from '../../helpers/chromium.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { bin, cli, serverEnv, startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

/** A server whose web settings are these, and which may visit this machine. */
function webServer(t: TestContext, web: object) {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const config = { egress: { allow: ['127.0.0.1'] }, web: { browser: withoutBrowser, ...web } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  return startServer(t, { home });
}

test('crawl on the command line: start, wait, show, read, search', async (t) => {
  const site = await startSite(t, { pages: 12 });
  site.on('/p/4', html('gone', 404));
  const server = await webServer(t, { search: { engines: ['local'] } });
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
  assert.match(list.stdout, /^N +OUTCOME +STATUS +URL +TITLE\n1 +fetched +200 /);
  const first = await server.cli('pages', id, '--fields', 'markdown', '--limit', '1');
  assert.match(first.stdout, /^1 {2}fetched .*\n\n[^]*Number 0 part 0: /, 'the text is printed');
  assert.match(first.stderr, /--cursor 1/);
  const errors = await server.cli('pages', id, '--outcomes', 'errored');
  assert.match(errors.stdout, /errored +http404 +404 /, 'with the reason');
  assert.match((await server.cli('map', site.url('/'), '--limit', '3')).stdout, /^URL .*\n/);
  site.on('/lamp', html('<title>Lamp</title><dl><dt>Price</dt><dd>1.299,00 €</dd></dl>'));
  const lamp = await server.cli('extract', site.url('/lamp'), '--schema', '{"price":"number"}');
  assert.match(lamp.stdout, /"price": 1299\n\}\n\n\/price from table Price/);
  const wrong = await server.cli('extract', site.url('/lamp'), '--schema', '{"type":"nothing","properties":{}}'); // prettier-ignore
  assert.match(wrong.stderr, /not a JSON Schema/);
  const text = await server.cli('read', site.url('/lamp'), '--include-selectors', 'dd');
  assert.equal(text.stdout, '1.299,00 €\n');
  const found = await server.cli('search', 'number part river');
  assert.match(found.stdout, /\/p\/\d/);
  assert.match(found.stderr, /No general web engine is configured/);
  const used = (await server.cli('usage', '--json')).json<{ rows: { action: string; calls: number }[] }>(); // prettier-ignore
  assert.equal(used.rows.find(({ action }) => action === 'crawl')!.calls, 1);
  const reported = await server.cli('usage');
  assert.match(
    reported.stdout,
    /^\d+ credits in \d{4}-\d\d\n[^]*\nWHEN +ACTION [^]*crawlPage +1 +per page/,
  );
  const whole = await server.cli('crawl', site.url('/'), '--max-pages', '3', '--wait');
  assert.match(whole.stdout, /^3 pages \(limit\), \d credits\n[^]*errand pages job_/);
  assert.match((await server.cli('crawl', 'retry', id)).stderr, /already has 6 pages/);
  const all = await server.cli('crawl', site.url('/'), '--max-pages', '50', '--wait', '--json');
  const { id: second } = all.json<{ id: string }>();
  assert.match((await server.cli('crawl', 'retry', second)).stdout, /^job_\w+ (queued|running)\n/);
  assert.equal((await server.cli('wait', second)).code, 0);
  const over = await server.cli('crawl', 'pause', second);
  assert.match(over.stderr, /Cannot pause the crawl because it is completed/);
});

const product = (name: string, price: number) =>
  `<html><head><title>${name}</title><script type="application/ld+json">${JSON.stringify({ '@type': 'Product', name, price })}</script></head><body><h1>${name}</h1><p>The ${name} costs ${price}.</p></body></html>`;
const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, price: { type: 'number' } },
  required: ['name', 'price'],
};

test('extract, pipeline, agent and searches print readable text and accept JSON from a file, stdin or an argument', async (t) => {
  const site = await startSite(t);
  site.on('/a', html(product('Lamp', 5)));
  site.on('/b', html(product('Lamp', 7)));
  site.on('/empty', html('<h1>nothing</h1>'));
  const rows = ['/a', '/b', '/gone'].map((path) => ({ title: path, url: site.url(path), content: 'a lamp', publishedDate: '2026-01-02T00:00:00', img_src: site.url('/x.png') })); // prettier-ignore
  const engine: Handler = (_request, response) =>
    void response.end(JSON.stringify({ results: rows, suggestions: [] }));
  site.on('/search', engine);
  site.on('/autocompleter', (_request, response) => void response.end('["lamp shade","lamp oil"]'));
  const server = await webServer(t, { search: { searxngUrl: site.url('') } });
  const file = join(tempFolder(t), 'schema.json');
  writeFileSync(file, JSON.stringify(schema));

  const found = await server.cli('extract', site.url('/a'), '--schema', file);
  assert.equal(found.code, 0, found.stderr);
  assert.match(
    found.stdout,
    /^Lamp\nhttp.*\n\n\{\n {2}"name": "Lamp",\n {2}"price": 5\n\}\n\n\/name from json-ld/,
  );
  assert.match(found.stderr, /^job_\w+\n$/, 'only the job id is printed in addition to the result');
  const piped = await cli(server.home, ['extract', site.url('/a'), '--schema', '-', '--json'], {}, { stdin: JSON.stringify(schema) }); // prettier-ignore
  assert.deepEqual(piped.json().data, { name: 'Lamp', price: 5 });
  assert.equal(piped.stderr, '');
  const pairs = await server.cli('extract', site.url('/a'), '--schema', 'price=number', '--json');
  assert.deepEqual(pairs.json().data, { price: 5 });
  const asked = await server.cli('extract', site.url('/empty'), '--schema', `@${file}`);
  assert.equal(asked.code, 1, 'a script learns that it is not all there');
  assert.match(asked.stdout, /\/price is missing: [^]*errand extract submit job_\w+ FILE/);
  const asking = /submit (job_\w+)/.exec(asked.stdout)![1]!;
  const wrong = await server.cli('extract', 'submit', asking, '{"name":"x","price":"y"}');
  assert.match(wrong.stderr, /does not match the schema/);
  const kept = await cli(server.home, ['extract', 'submit', asking, '-'], {}, { stdin: '{"name":"x","price":1}' }); // prettier-ignore
  assert.deepEqual([kept.code, /valid +true/.test(kept.stdout)], [0, true], kept.stdout);

  const none = await server.cli('extract', site.url('/a'), '--schema', 'no-such.json');
  assert.deepEqual([none.code, /no-such.json cannot be read: the file does not exist/.test(none.stderr)], [2, true]); // prettier-ignore
  const broken = await server.cli('extract', site.url('/a'), '--schema', '{"a":');
  assert.match(broken.stderr, /--schema is not valid JSON/);
  const help = await server.cli('extract', '--help');
  assert.match(help.stdout, /--schema JSON\|FILE[^]*-d, --detach/);

  const pipeline = await server.cli('pipeline', 'lamp', '--schema', file, '--extract-from', '3');
  assert.match(pipeline.stdout, /^1\. Lamp\n.*\/a\n\{\n[^]*3\. \/gone\n.*\/gone\nfailed: .*404[^]*4 steps, 3 credits\n$/); // prettier-ignore
  const agent = await server.cli('agent', 'what does a lamp cost', '--schema', file);
  assert.match(
    agent.stdout,
    /The sources disagree on price:\n {2}5 according to .*\/a\n {2}7 according to .*\/b/,
  );
  assert.match(
    agent.stdout,
    /\n\[1\] Lamp http.*\/a\n\[2\] Lamp http.*\/b\n\[3\] .*not read: .*404/,
  );

  const words = [process.execPath, bin, 'pipeline', 'lamp', '--schema', file];
  const watched = await server.cli(
    'run',
    '--tty',
    '--env',
    `ERRAND_HOME=${server.home}`,
    '--',
    ...words,
  );
  assert.match(watched.stdout, /job_\w+ · search · 1 steps · "lamp": 3 results/, 'on a terminal one sees how far it is'); // prettier-ignore
  assert.match(watched.stdout, /1\. Lamp\r?\n[^]*4 steps, 3 credits/);

  const later = await server.cli('pipeline', 'lamp', '--schema', file, '--detach');
  assert.match(later.stdout, /^job_\w{16}\n$/);
  const result = await server.cli('result', later.stdout.trim());
  assert.match(result.stdout, /^1\. Lamp\n/, 'as the command itself would have printed it');
  const script = (await server.cli('result', later.stdout.trim(), '--json')).json();
  assert.equal(script.extracted, 2);

  assert.match(
    (await server.cli('news', 'lamp')).stdout,
    /^POSITION .*PUBLISHED\n1 +\/a .*searxng +2026-01-0/,
  );
  assert.match((await server.cli('images', 'lamp')).stdout, /IMAGE URL\n1 .*\/x\.png/);
  assert.equal((await server.cli('suggest', 'lamp')).stdout, 'lamp shade\nlamp oil\n');
  assert.match(
    (await server.cli('answer', 'lamp cost')).stdout,
    /^\[\d\] [^]*costs[^]*\n\[1\] .*\/a\n/,
  );

  site.on('/search', html('', 429));
  const refused = await server.cli('pipeline', 'lamp', '--schema', file);
  assert.equal(refused.stdout, '');
  assert.match(refused.stderr, /No source was found\..*\n.*`errand agent`/);
  const said = await server.cli('pipeline', 'lamp', '--schema', file, '--json');
  assert.equal(said.code, refused.code);
  assert.equal(said.json<{ error: { code: string } }>().error.code, 'nothingFound');
});

test('ctrl-c leaves the job running, and other results have their exit codes', async (t) => {
  const site = await startSite(t);
  let answer = () => {};
  site.on(
    '/slow',
    (_request, response) => void (answer = () => void response.end(product('Lamp', 5))),
  );
  const server = await webServer(t, {});
  const started = async () => {
    const child = spawn(process.execPath, [bin, 'read', site.url('/slow'), '--timeout', '2m'], { env: serverEnv(server.home) }); // prettier-ignore
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const count = site.count('/slow');
    await until('it is being read', () => said.includes('job_') && site.count('/slow') > count);
    return { child, exit: once(child, 'exit'), said: () => said, id: /job_\w+/.exec(said)![0] };
  };
  const left = await started();
  left.child.kill('SIGINT');
  assert.deepEqual(await left.exit, [0, null]);
  assert.match(left.said(), /keeps running\. Follow it with: errand result job_\w+/);
  answer();
  assert.match((await server.cli('result', left.id)).stdout, /The Lamp costs 5\./);
  const stopped = await started();
  await server.cli('cancel', stopped.id);
  assert.deepEqual(await stopped.exit, [130, null]);
  site.on('/quick', html(product('Lamp', 7)));
  const urls = `${site.url('/quick')},${site.url('/slow')}`;
  const some = await server.cli('agent', 'lamp', '--only-urls', '--urls', urls, '--detach');
  const id = some.stdout.trim();
  await until('one is read', async () => (await server.cli('show', id)).stdout.includes('1 steps'));
  await server.cli('cancel', id);
  const cut = await server.cli('result', id);
  assert.deepEqual([cut.code, cut.stderr.includes(`${id} cancelled.`)], [130, true]);
  assert.match(cut.stdout, /The Lamp costs 7\.[^]*Not read \(cancelled\): .*\/slow/);
  const script = await server.cli('result', id, '--json');
  assert.equal(script.code, 130);
  assert.equal(script.json<{ error: { data: { result: { stopReason: string } } } }>().error.data.result.stopReason, 'cancelled'); // prettier-ignore
});

const browser = await findChromium();
const skip = browserSkip(browser);

test(
  'browse prints the result of each action and the path of the screenshot',
  { skip },
  async (t) => {
    const site = await startSite(t);
    site.on(
      '/form',
      html('<title>Form</title><h1>Hello</h1><button onclick="document.title=1">Go</button>'),
    );
    const server = await webServer(t, { browser });
    const actions = [
      { type: 'click', selector: 'text=Go' },
      { type: 'extract', format: 'text' },
      { type: 'screenshot' },
      { type: 'wait', selector: '#never', ms: 100 },
    ];
    const argv = ['browse', site.url('/form'), '--actions', '-'];
    const done = await cli(server.home, argv, {}, { stdin: JSON.stringify(actions) });
    assert.equal(done.code, 1, done.stderr);
    assert.match(done.stdout, /^1\nhttp.*\n\n1\. click\n\n2\. extract\nHello[^]*\n3\. screenshot\n\/.*\.jpg\n\n4\. wait failed: /); // prettier-ignore
    assert.equal(done.code, 1, done.stderr);
  },
);
