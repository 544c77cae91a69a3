// Pipeline and agent jobs: visible steps, an error per item, provenance, conflicts and limits, with failing engines and exhausted
// budgets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bestPassages } from '../../../../src/kinds/web/jobs/passages.ts';
import { html, startSite, type Handler, type Site } from '../../../fixtures/site/site.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb } from '../../../helpers/web.ts';

interface Step {
  phase: string;
  ok: boolean;
  credits: number;
  detail: string;
}
interface Result extends Record<string, unknown> {
  id: string;
  items: { url: string; error?: string; data?: unknown; fields?: { source: object }[] }[];
  steps: Step[];
  creditsUsed: number;
  stopReason: string;
  unread?: string[];
}

const product = (name: string, price: number, tags: string[]) =>
  `<html><head><title>${name}</title><script type="application/ld+json">${JSON.stringify({ '@type': 'Product', name, price, keywords: tags })}</script></head><body><h1>${name}</h1><p>The ${name} costs ${price}.</p></body></html>`;
const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, price: { type: 'number' } },
};

/** An engine that answers these paths of the site. */
function engine(site: Site, paths: readonly string[]): void {
  site.on('/search', (_request, response) => {
    const results = paths.map((path) => ({ title: path, url: site.url(path), content: path, engine: 'x' })); // prettier-ignore
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ query: 'q', results, suggestions: [] }));
  });
}

async function open(t: Parameters<typeof startSite>[0], settings: object = {}) {
  const site = await startSite(t);
  for (const [i, price] of [5, 5, 7].entries())
    site.on(`/shop/${i}`, html(product('Lamp', price, [`t${i}`])));
  engine(site, ['/shop/0', '/gone', '/shop/1', '/shop/2']);
  const web = await createWeb(t, {
    settings: { search: { searxngUrl: site.url('') }, ...settings },
  });
  return { site, web };
}

test('a pipeline shows its steps, errors per item and the source of each value, and charges only for data', async (t) => {
  const { web, site } = await open(t);
  const out = await web.call<Result>('run_pipeline', { query: 'lamp', schema, extractFrom: 4 });
  assert.equal(out.stopReason, 'done');
  assert.deepEqual(out.steps.map(({ phase }) => phase).toSorted(), [
    'read',
    'read',
    'read',
    'read',
    'search',
  ]);
  const gone = out.items.find(({ url }) => url.endsWith('/gone'))!;
  assert.match(gone.error!, /404/);
  const lamp = out.items.find(({ url }) => url.endsWith('/shop/0'))!;
  assert.deepEqual(lamp.data, { name: 'Lamp', price: 5 });
  assert.ok(
    lamp.fields!.length >= 2 &&
      lamp.fields!.every(({ source }) => JSON.stringify(source).includes('json-ld')),
  );
  assert.equal(out.creditsUsed, 1 + 3, 'the page that failed costs nothing');
  const usage = await web.call<{ creditsUsed: number }>('web_usage', {});
  assert.equal(usage.creditsUsed, out.creditsUsed, 'the ledger says the same');
  const bounded = await web.call<Result>('run_pipeline', { query: 'lamp', schema, extractFrom: 4, maxCredits: 2 }); // prettier-ignore
  assert.equal(bounded.stopReason, 'credits');
  assert.ok(bounded.creditsUsed <= 2);
  assert.ok(bounded.items.length >= 1 && bounded.unread!.length >= 1, 'what was read stays');
  assert.equal(bounded.items.length + bounded.unread!.length, 4);
  site.on('/search', html('', 429));
  await assert.rejects(web.call('run_pipeline', { query: 'lamp', schema }), (error: { code: string; message: string; data: { result: Result } }) => {
    assert.equal(error.code, 'nothingFound');
    assert.match(error.message, /429|many/i);
    assert.equal(error.data.result.steps[0]!.ok, false);
    return true;
  }); // prettier-ignore
});

test('an agent merges data with sources and conflicts, within maxSources and maxCredits', async (t) => {
  const { web } = await open(t);
  const out = await web.call<Result & { data: unknown; provenance: Record<string, string[]>; conflicts: { field: string; values: { value: unknown; sources: string[] }[] }[]; context: string; sources: { number: number; url: string; error?: string }[] }>('run_agent', {
    prompt: 'what does the lamp cost', schema, maxSources: 4, maxCredits: 20,
  }); // prettier-ignore
  assert.deepEqual(out.data, { name: 'Lamp', price: 5 });
  assert.deepEqual(out.conflicts.map(({ field }) => field), ['price']); // prettier-ignore
  assert.deepEqual(out.conflicts[0]!.values.map(({ value, sources }) => [value, sources.length]), [[5, 2], [7, 1]]); // prettier-ignore
  assert.ok(out.provenance.name!.every((url) => url.includes('/shop/')));
  for (const [, number] of out.context.matchAll(/^\[(\d+)\]/gm)) {
    const source = out.sources.find((one) => one.number === Number(number))!;
    assert.equal(source.error, undefined, 'a quoted number is a source that was read');
  }
  assert.equal(out.sources.filter(({ error }) => error !== undefined).length, 1);
  const two = await web.call<Result & { sources: unknown[] }>('run_agent', {
    prompt: 'the lamp', maxSources: 2,
  }); // prettier-ignore
  assert.equal(two.sources.length, 2);
  for (const maxCredits of [1, 2, 3]) {
    const end = await web
      .call<Result>('run_agent', { prompt: 'the lamp costs', maxCredits, maxSources: 4 })
      .catch((error: { code: string; data: { result: Result } }) => {
        assert.equal(error.code, 'nothingFound');
        return error.data.result;
      });
    assert.ok(end.creditsUsed <= maxCredits, `${end.creditsUsed} of ${maxCredits}`);
  }
});

test('a page with several URLs is read once and counts once; impossible requests are rejected immediately', async (t) => {
  const { web, site } = await open(t);
  site.on('/moved', (_request, response) => void response.writeHead(302, { location: '/shop/2' }).end()); // prettier-ignore
  const urls = ['/shop/0', '/shop/0#top', '/shop/2', '/moved'].map((path) => site.url(path));
  const out = await web.call<Result & { data: unknown; provenance: Record<string, string[]>; conflicts: { values: { sources: string[] }[] }[] }>('run_agent', { prompt: 'lamp', schema, urls, onlyUrls: true }); // prettier-ignore
  assert.equal(out.creditsUsed, 3);
  assert.deepEqual(out.conflicts[0]!.values.map(({ sources }) => sources.length), [1, 1]); // prettier-ignore
  const call = (name: string, input: object) => web.call(name, { prompt: 'lamp', ...input });
  const refused = { code: 'invalidInput' };
  await assert.rejects(call('run_agent', { onlyUrls: true }), refused);
  await assert.rejects(call('run_agent', { urls: ['nothing'] }), refused);
  const wrong = { query: 'lamp', schema, selectors: { name: '[[' } };
  await assert.rejects(web.call('run_pipeline', wrong), refused);
  const before = await web.call<{ creditsUsed: number }>('web_usage', {});
  await assert.rejects(web.call('run_pipeline', { query: 'lamp', schema, maxCredits: 1 }), /The remaining credits do not cover a search and a page/); // prettier-ignore
  assert.deepEqual(await web.call('web_usage', {}), before, 'rejected requests cost nothing');
});

test('an exhausted budget keeps the pages read so far and is reported; the next call is rejected', async (t) => {
  const { web } = await open(t, { budget: { creditsPerDay: 3 } });
  const out = await web.call<Result>('run_pipeline', { query: 'lamp', schema, extractFrom: 4 });
  assert.equal(out.stopReason, 'budget');
  assert.ok(out.items.some(({ data }) => data !== undefined));
  assert.ok(out.unread!.length >= 1);
  const { creditsUsed } = await web.call<{ creditsUsed: number }>('web_usage', {});
  assert.ok(creditsUsed <= 3, `${creditsUsed} of 3`);
  await assert.rejects(web.call('run_pipeline', { query: 'lamp', schema }), {
    code: 'budgetExhausted',
  });
});

test('the steps of a running agent are visible, and cancel ends it', async (t) => {
  const { web, site } = await open(t);
  const slow: Handler = () => {};
  site.on('/shop/2', slow);
  const { id } = await web.call<{ id: string }>('run_agent', {
    prompt: 'the lamp', maxSources: 4, waitMs: 0,
  }); // prettier-ignore
  const seen = await until('two steps are seen', async () => {
    const view = await web.call<{ steps?: Step[]; stage?: string }>('get_job', { id });
    return (view.steps?.length ?? 0) >= 2 ? view : undefined;
  });
  assert.equal(seen.steps![0]!.phase, 'search');
  const end = await web.call('cancel_job', { id });
  assert.equal(end.status, 'cancelled');
});

test('engines that reject a search or time out are named, and the next one is used', async (t) => {
  const { site, web } = await open(t, {});
  await web.crawl({ url: site.url('/p/1'), maxPages: 3, sitemap: 'skip' });
  // Two servers on one store would share the work.
  await web.stop();
  const faults: [Handler, RegExp][] = [
    [html('', 403), /403|formats/],
    [() => {}, /searxng/i],
  ];
  const search = { searxngUrl: site.url(''), engines: ['searxng', 'local'], timeoutMs: 1000 };
  for (const [answer, words] of faults) {
    site.on('/search', answer);
    const one = await createWeb(t, { store: web.store, settings: { search } });
    const out = await one.call<{ notice: string; rows: { engine: string }[] }>('web_search', {
      query: 'number part',
    });
    assert.match(out.notice, words);
    assert.ok(out.rows.length > 0 && out.rows.every(({ engine: name }) => name === 'local'));
    await one.stop();
  }
});

test('passages are ranked by the words of the question in any script, within the byte budget', () => {
  const texts = [
    { number: 1, text: '大阪の名物はたこ焼きです。' },
    { number: 2, text: '東京の天気は晴れです。' },
    { number: 3, text: 'The CAFÉ opens at nine.\n\nNobody knows why.' },
  ];
  const found = (question: string, room = 1000) =>
    bestPassages(question, texts, room).map(({ number }) => number);
  assert.equal(found('東京の天気')[0], 2);
  assert.deepEqual(found('when does the cafe open'), [3]);
  assert.deepEqual(found('cafe', 10), [], 'never more than there is room for');
});

test('the ranking of passages considers headings and adjacent words', () => {
  const filler = 'The logging module has handlers. It can be configured in several ways. '.repeat(
    8,
  );
  const guide = [
    '# Logging HOWTO¶', filler, '## Rotating files¶',
    'Use `RotatingFileHandler` with [maxBytes](https://a.test/x) and backupCount.', filler,
    '## Formatters', `Files are formatted. ${filler} Handlers rotate nothing here.`,
  ].join('\n\n'); // prettier-ignore
  const other = '# Cooking\n\nHow do I cook the files of a fish? It is what it is.';
  const [first, ...rest] = bestPassages(
    'How do I rotate log files by maxBytes?',
    [{ number: 1, text: guide }, { number: 2, text: other }],
    3000,
  ); // prettier-ignore
  assert.match(
    first!.text,
    /^Logging HOWTO › Rotating files\nUse `RotatingFileHandler` with maxBytes/,
  );
  assert.doesNotMatch(JSON.stringify([first, ...rest]), /¶/);
  assert.ok(
    rest.every(({ number }) => number === 1),
    'nothing that only shares the word files',
  );
});
