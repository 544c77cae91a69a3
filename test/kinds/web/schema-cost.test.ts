// A schema that asks for endless work is refused in words, and meanwhile the server answers everybody else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, startSite } from '../../fixtures/site/site.ts';
import { createWeb, type Web } from '../../helpers/web.ts';

/** Each part asks twice for the next one: 2^60 checks of one value, and nothing that does not fit. */
const parts = Array.from({ length: 60 }, (_, i) => [
  `part${i}`,
  { allOf: [{ $ref: `#/$defs/part${i + 1}` }, { $ref: `#/$defs/part${i + 1}` }] },
]);
const $defs = { ...Object.fromEntries(parts), part60: { minLength: 3 } };
const costly = { $defs, $ref: '#/$defs/part0' };
/** Costs nothing until somebody states the field. */
const trap = { $defs, type: 'object', properties: { name: { type: 'string' }, more: { additionalProperties: { $ref: '#/$defs/part0' } } } }; // prettier-ignore

test('a costly schema is refused before there is a job', async (t) => {
  const web = await createWeb(t);
  const url = 'http://a.test/';
  const wishes: [name: string, input: object][] = [
    ['extract_data', { url, schema: costly }],
    ['crawl_site', { url, schema: costly }],
  ];
  await refusedMeanwhile(web, wishes);
  const { jobs } = await web.call<{ jobs: unknown[] }>('list_jobs', {});
  assert.deepEqual(jobs, []);
});

test('submitted data that makes the schema costly is refused, and what fits is kept afterwards', async (t) => {
  const site = await startSite(t);
  site.on('/plain', html('<title>Plain</title><main><h1>Plain</h1></main>'));
  const web = await createWeb(t);
  const out = await web.call('extract_data', { url: site.url('/plain'), schema: trap });
  assert.equal(out.status, 'completed', JSON.stringify(out));
  const { jobId } = out;
  await refusedMeanwhile(web, [['submit_extraction', { jobId, data: { more: { a: 1 } } }]]);
  const kept = await web.call('submit_extraction', { jobId, data: { name: 'Plain' } });
  assert.equal(kept.valid, true);
});

/** Others are answered before the refusals come: none of the work is done where they are served. */
async function refusedMeanwhile(web: Web, wishes: [name: string, input: object][]): Promise<void> {
  let refused = 0;
  const refusals = wishes.map(async ([name, input]) => {
    await assert.rejects(
      web.call(name, input),
      {
        code: 'invalidInput',
        message: /^The schema takes longer than \d+ ms to check/,
      },
      name,
    );
    refused++;
  });
  for (let i = 0; i < 20; i++) await web.call('web_usage', {});
  assert.equal(refused, 0, 'the checks are still under way');
  await Promise.all(refusals);
}
