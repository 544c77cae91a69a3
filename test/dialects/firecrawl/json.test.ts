// Data in the form of a schema, as Firecrawl's SDK sends it: zod 3, zod 4, and JSON Schema of every draft.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import { html } from '../../fixtures/site/site.ts';

const packages = createRequire(import.meta.resolve('@mendable/firecrawl-js'));
/** The copy that the SDK brings along is zod 3 with zod 4 next to it. */
const z3 = packages('zod');
const z4 = packages('zod/v4');

const lamp = `<title>Lamp</title><script type="application/ld+json">{"@context":"https://schema.org","@type":"Product","name":"Desk Lamp",
"sku":"L-1","offers":{"@type":"Offer","price":"12.50","priceCurrency":"EUR"}}</script><main><h1>Desk Lamp</h1></main>`;
const want = { name: 'Desk Lamp', price: 12.5, currency: 'EUR', warranty: null };

const lampOf = (z: Json): Json =>
  z.object({
    name: z.string().describe('of the product'),
    price: z.number().positive(),
    currency: z.enum(['EUR', 'USD']).nullable(),
    warranty: z.string().optional(),
  });

test('schemas of zod 3, of zod 4 and of every draft are filled: scrape, crawl, batch, extract', async (t) => {
  const { site, client } = await openFirecrawl(t);
  site.on('/lamp', html(lamp));
  const url = site.url('/lamp');
  const { $schema, ...plain } = z4.toJSONSchema(lampOf(z4));
  assert.match($schema, /2020-12/);
  const drafts = ['draft-04', 'draft-06', 'draft-07', 'draft/2019-09', 'draft/2020-12'];
  const schemas = [
    lampOf(z3),
    z4.toJSONSchema(lampOf(z4)),
    ...drafts.map((name) => ({ $schema: `http://json-schema.org/${name}/schema#`, ...plain, properties: { ...plain.properties, price: { type: 'number' } } })), // prettier-ignore
  ];
  for (const schema of schemas) {
    const page: Json = await client.scrape(url, { formats: [{ type: 'json', schema }] });
    assert.deepEqual(page.json, want);
  }
  const formats = [{ type: 'json', schema: lampOf(z3) }];
  const options = { limit: 1, sitemap: 'skip', pollInterval: 1, scrapeOptions: { formats } };
  assert.deepEqual((await client.crawl(url, options)).data[0].json, want);
  const batch: Json = await client.batchScrape([url], { options: { formats }, pollInterval: 1 });
  assert.deepEqual(batch.data[0].json, want);
  const extracted: Json = await client.extract({
    urls: [url],
    schema: lampOf(z3),
    pollInterval: 1,
  });
  assert.deepEqual([extracted.data.name, extracted.data.price], [want.name, want.price]);
  // The SDK loses the fields of a zod 4 schema before it sends it.
  const lost: Json = await client.scrape(url, { formats: [{ type: 'json', schema: lampOf(z4) }] });
  assert.match(lost.warning, /without fields.*z\.toJSONSchema/);
});
