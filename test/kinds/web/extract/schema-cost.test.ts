// A schema that causes endless work is rejected with a clear error, and the server keeps serving other callers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { createWeb, type Web } from '../../../helpers/web.ts';

/** Each part refers twice to the next one: 2^60 checks of one value, none of which fails. */
const parts = Array.from({ length: 60 }, (_, i) => [
  `part${i}`,
  { allOf: [{ $ref: `#/$defs/part${i + 1}` }, { $ref: `#/$defs/part${i + 1}` }] },
]);
const $defs = { ...Object.fromEntries(parts), part60: { minLength: 3 } };
const costly = { $defs, $ref: '#/$defs/part0' };
/** Cheap until the data contains the field. */
const trap = { $defs, type: 'object', properties: { name: { type: 'string' }, more: { additionalProperties: { $ref: '#/$defs/part0' } } } }; // prettier-ignore

test('a costly schema is rejected before a job is created', async (t) => {
  const web = await createWeb(t);
  const url = 'http://a.test/';
  const calls: [name: string, input: object][] = [
    ['extract_data', { url, schema: costly }],
    ['crawl_site', { url, schema: costly }],
  ];
  await assertRejectedInBackground(web, calls);
  const { jobs } = await web.call<{ jobs: unknown[] }>('list_jobs', {});
  assert.deepEqual(jobs, []);
});

test('submitted data that makes the schema costly is rejected, and valid data is stored afterwards', async (t) => {
  const site = await startSite(t);
  site.on('/plain', html('<title>Plain</title><main><h1>Plain</h1></main>'));
  const web = await createWeb(t);
  const out = await web.call('extract_data', { url: site.url('/plain'), schema: trap });
  assert.equal(out.status, 'completed', JSON.stringify(out));
  const { id } = out;
  await assertRejectedInBackground(web, [['submit_extraction', { id, data: { more: { a: 1 } } }]]);
  const kept = await web.call('submit_extraction', { id, data: { name: 'Plain' } });
  assert.equal(kept.valid, true);
});

/** Other calls complete before the rejections, because the checks do not run on the main thread. */
async function assertRejectedInBackground(
  web: Web,
  calls: [name: string, input: object][],
): Promise<void> {
  let rejected = 0;
  const rejections = calls.map(async ([name, input]) => {
    await assert.rejects(
      web.call(name, input),
      {
        code: 'invalidInput',
        message: /^The schema takes more than \d+ ms of CPU time to check/,
      },
      name,
    );
    rejected++;
  });
  for (let i = 0; i < 20; i++) await web.call('web_usage', {});
  assert.equal(rejected, 0, 'the checks are still running');
  await Promise.all(rejections);
}
