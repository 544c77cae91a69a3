// Extraction: values with their sources, missing values with reasons, and invalid schemas.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import type { AppError } from '../../../../src/errors.ts';
import { extractFrom } from '../../../../src/kinds/web/extract/extract.ts';
import { askModel } from '../../../../src/kinds/web/extract/model.ts';
import { PagePool } from '../../../../src/kinds/web/read/pool.ts';
import { checkAgainst, readSchema } from '../../../../src/kinds/web/extract/schema.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { createEgress } from '../../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../../src/runtime/log.ts';

const url = 'https://shop.test/lamp';
const product = `<html><head><title>Lamp – Shop</title><meta property="og:image" content="/og.png">
<meta property="og:title" content="Lamp (OG)"><meta name="description" content="A lamp.">
<script type="application/ld+json">{"@context":"https://schema.org","@graph":[
{"@type":"Organization","name":"Shop Ltd","@id":"#shop"},
{"@type":"Product","name":"Table Lamp","sku":"L-1","image":["/a.png","/b.png"],"brand":{"@type":"Brand","name":"Lux"},
"aggregateRating":{"@type":"AggregateRating","ratingValue":"4.5","reviewCount":"1,204"},
"offers":{"@type":"Offer","price":"1.299,00","priceCurrency":"EUR","availability":"https://schema.org/InStock","seller":{"@id":"#shop"}}}]}</script>
</head><body><h1>Table Lamp</h1><table><tr><th>Weight</th><td>1.2 kg</td></tr><tr><th>Voltage:</th><td>230</td></tr></table>
<dl><dt>Colour</dt><dd>Blue</dd></dl><p class="note" style="display:block">Ships <b>today</b></p>
<p>${'A calm light for long evenings at the desk, made of steel and glass. '.repeat(5)}</p></body></html>`;

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    price: { type: 'number' },
    currency: { enum: ['EUR', 'USD'] },
    availability: { enum: ['InStock', 'OutOfStock'] },
    inStock: { type: 'boolean' },
    rating: { type: ['number', 'null'] },
    reviewCount: { type: 'integer' },
    brand: { type: 'string' },
    image: { type: 'string', format: 'uri' },
    images: { type: 'array', items: { type: 'string' } },
    seller: { type: 'string' },
    voltage: { type: 'number' },
    colour: { type: 'string' },
    weight: { type: 'number' },
    warranty: { type: 'string' },
  },
  required: ['name', 'warranty'],
};

test('a schema is filled from structured data and tables, and missing values are null with a reason', () => {
  const result = extractFrom(product, url, { schema });
  assert.deepEqual(result.data, {
    name: 'Table Lamp',
    price: 1299,
    currency: 'EUR',
    availability: 'InStock',
    inStock: true,
    rating: 4.5,
    reviewCount: 1204,
    brand: 'Lux',
    image: 'https://shop.test/a.png',
    images: ['/a.png', '/b.png'],
    seller: 'Shop Ltd',
    voltage: 230,
    colour: 'Blue',
    weight: null,
    warranty: null,
  });
  const source = (path: string) => result.fields.find((field) => field.path === path)?.source;
  assert.deepEqual(source('/price'), { kind: 'json-ld', at: '[1].offers.price' });
  assert.deepEqual(source('/voltage'), { kind: 'table', at: 'Voltage' });
  assert.deepEqual(source('/colour'), { kind: 'table', at: 'Colour' });
  const reason = (path: string) => result.missing.find((field) => field.path === path)?.reason;
  assert.match(
    reason('/weight')!,
    /table \(Weight\) contains "1\.2 kg", which cannot be read as number/,
  );
  assert.match(reason('/warranty')!, /provides warranty/);
  assert.equal(result.valid, false);
  assert.match(result.problems[0]!.message, /required property 'warranty'/);
  assert.match(result.needsModel!.content, /calm light/);
  assert.deepEqual(result.needsModel!.schema, schema);
});

test('conflicting sources are listed as alternatives, and selectors have the lowest priority', () => {
  const result = extractFrom(product, url, {
    schema: { title: 'string', note: 'string', picture: 'url' },
    selectors: { note: '.note', title: 'h1', picture: 'meta[property="og:image"]@content' },
  });
  assert.equal((result.data as Record<string, unknown>).title, 'Table Lamp');
  assert.equal((result.data as Record<string, unknown>).note, 'Ships today');
  const title = result.fields.find((field) => field.path === '/title')!;
  assert.deepEqual(title.alternatives?.[0], {
    value: 'Lamp (OG)',
    source: { kind: 'opengraph', at: 'og:title' },
  });
  const note = result.fields.find((field) => field.path === '/note')!;
  assert.deepEqual(note.source, { kind: 'selector', at: '.note' });
});

test('lists come from ItemList, microdata, header tables and card selectors', () => {
  const items = {
    type: 'array',
    items: { type: 'object', properties: { name: { type: 'string' }, price: { type: 'number' } } },
  };
  const list = `<script type="application/ld+json">{"@type":"ItemList","itemListElement":[
{"@type":"ListItem","position":1,"item":{"@type":"Product","name":"A","offers":{"price":1}}},
{"@type":"ListItem","position":2,"item":{"@type":"Product","name":"B","offers":{"price":"2.50"}}}]}</script>`;
  assert.deepEqual(extractFrom(list, url, { schema: items }).data, [
    { name: 'A', price: 1 },
    { name: 'B', price: 2.5 },
  ]);
  const table =
    '<table><tr><th>Name</th><th>Price</th></tr><tr><td>C</td><td>$3</td></tr><tr><td>D</td><td>on request</td></tr></table>';
  const fromTable = extractFrom(table, url, {
    schema: { type: 'object', properties: { rows: items } },
  });
  assert.deepEqual(fromTable.data, {
    rows: [
      { name: 'C', price: 3 },
      { name: 'D', price: null },
    ],
  });
  assert.deepEqual(fromTable.fields[0]!.source, { kind: 'table', at: 'table[0][0].Name' });
  const micro = ['E', 'F'].map(
    (name) =>
      `<div itemscope itemtype="http://schema.org/Product"><b itemprop="name">${name}</b></div>`,
  );
  assert.deepEqual(extractFrom(micro.join(''), url, { schema: items }).data, [
    { name: 'E', price: null },
    { name: 'F', price: null },
  ]);
  const cards = '<div class="card"><h3>G</h3><i>4 EUR</i></div><div class="card"><h3>H</h3></div>';
  const rule = { selector: '.card', fields: { name: 'h3', price: 'i' } };
  const fromCards = extractFrom(cards, url, {
    schema: { type: 'object', properties: { list: items } },
    selectors: { list: rule },
  });
  assert.deepEqual(fromCards.data, {
    list: [
      { name: 'G', price: 4 },
      { name: 'H', price: null },
    ],
  });
  assert.deepEqual(
    fromCards.missing.map(({ path }) => path),
    ['/list/1/price'],
  );
});

test('unambiguous numbers and dates are parsed, and ambiguous ones are not guessed', () => {
  const read = (type: object, texts: string[]) =>
    texts.map((text) => {
      const html = `<dl><dt>value</dt><dd>${text}</dd></dl>`;
      const { data } = extractFrom(html, url, { schema: { type: 'object', properties: { value: type } } }); // prettier-ignore
      return (data as { value: unknown }).value;
    });
  const amounts = ['1.299,00 €', "CHF 1'299.50", '₹1,23,456.78', '1 299,00 kr', '−5', '-$5', '99 Kč', '199,-', '12.345', '$1,299']; // prettier-ignore
  const numbers = [1299, 1299.5, 123456.78, 1299, -5, -5, 99, 199, 12.345, 1299];
  assert.deepEqual(read({ type: 'number' }, amounts), numbers);
  const doubtful = ['1.299 €', '1.2.3', '12.03.2026', 'ab 10', 'MAX 10', '12 15', '030 123 456', '4.5/5']; // prettier-ignore
  assert.deepEqual(new Set(read({ type: 'number' }, doubtful)), new Set([null]));
  const dates = ['2026-03-04T05:06:07Z', 'March 4, 2026', 'Wed, 4 Mar 2026', '04/03/2026'];
  assert.deepEqual(read({ type: 'string', format: 'date' }, dates), ['2026-03-04', '2026-03-04', '2026-03-04', null]); // prettier-ignore
  assert.deepEqual(read({ type: 'string', format: 'date-time' }, ['soon', '2026-03-04']), [null, null]); // prettier-ignore
  assert.deepEqual(read({ type: 'string', format: 'uri' }, ['/x', 'not an address']), ['https://shop.test/x', null]); // prettier-ignore
});

test('allOf parts are filled, breadcrumbs only from a breadcrumb list, and similar data is ignored', () => {
  const html = `<script type="application/ld+json">[{"@type":"Product","brand":{"@type":"Brand","name":"Lux"},"offers":{"price":3}},
{"@type":"BreadcrumbList","itemListElement":[{"@type":"ListItem","name":"Home","position":1}]},
{"@type":"ItemList","itemListElement":[{"@type":"ListItem","item":{"@type":"Product","name":"A"}}]}]</script>
<table style="display:none"><tr><td>sku</td><td>INJECTION</td></tr></table><div hidden><dl><dt>colour</dt><dd>INJECTION</dd></dl></div>
<table><tr><th>Size</th><th>Weight (kg)</th></tr><tr><td>S</td><td>1,5</td></tr></table>`;
  const text = { type: 'string' };
  const list = (properties: object) => ({ type: 'array', items: { type: 'object', properties } });
  const { data } = extractFrom(html, url, {
    schema: {
      allOf: [
        { type: 'object', properties: { name: text, price: { type: 'number' }, sku: text } },
        {
          properties: {
            colour: text,
            breadcrumbs: list({ name: text, position: { type: 'integer' } }),
            events: list({ name: text, startDate: text, venue: text }),
            sizes: list({ size: text, weight: { type: 'number' } }),
          },
        },
      ],
    },
  });
  assert.deepEqual(data, {
    name: null,
    price: 3,
    sku: null,
    colour: null,
    breadcrumbs: [{ name: 'Home', position: 1 }],
    events: null,
    sizes: [{ size: 'S', weight: 1.5 }],
  });
});

test('a page without data returns nulls and requests a model', () => {
  const html =
    '<html><body><h1>Plans</h1><p>We respect your privacy and keep your data safe with us.</p></body></html>';
  const result = extractFrom(html, url, {
    schema: { plans: [{ name: 'string', price: 'number' }], email: 'string' },
  });
  assert.deepEqual(result.data, { plans: null, email: null });
  assert.deepEqual(result.fields, []);
  assert.equal(result.missing.length, 2);
  assert.match(result.needsModel!.instructions, /do not invent values/);
  const asked = extractFrom(html, url, { prompt: 'Which plans are there?' });
  assert.match(asked.needsModel!.instructions, /Which plans are there\?/);
});

test('flat maps and JSON Schemas are distinguished', () => {
  assert.equal(readSchema({ title: 'string', tags: ['string'], type: 'string' }).flat, true);
  assert.equal(readSchema({ type: 'object', properties: { a: { type: 'string' } } }).flat, false);
  assert.equal(readSchema({ type: 'string' }).flat, false);
  assert.deepEqual(readSchema({ price: 'float', names: 'string[]', about: 'what it is' }).schema, {
    type: 'object',
    properties: {
      price: { type: 'number' },
      names: { type: 'array', items: { type: 'string' } },
      about: { type: 'string', description: 'what it is' },
    },
  });
});

test('an invalid, oversized or too deep schema, or one with an external reference, is rejected', () => {
  let deep: unknown = { type: 'string' };
  for (let i = 0; i < 30; i++) deep = { type: 'object', properties: { a: deep } };
  const bad: [unknown, RegExp][] = [
    ['text', /not a JSON Schema: it is a string/],
    [[1], /it is a list/],
    [null, /it is null/],
    [{ type: 'nonsense', properties: {} }, /not a JSON Schema/],
    [{ type: 'object', properties: { a: { type: 'string', pattern: '(' } } }, /not a JSON Schema/],
    [
      { type: 'object', properties: { a: { $ref: 'https://elsewhere.test/s.json' } } },
      /not a JSON Schema/,
    ],
    [deep, /deeper than/],
    [{ type: 'object', description: 'x'.repeat(70_000), properties: {} }, /longer than/],
  ];
  for (const [schema, message] of bad) {
    assert.throws(
      () => readSchema(schema),
      (error: AppError) => error.code === 'invalidInput' && message.test(error.message),
      JSON.stringify(schema)?.slice(0, 60),
    );
  }
});

test('submitted JSON is checked, and a catastrophic pattern runs in linear time', () => {
  assert.deepEqual(checkAgainst(schema, { name: 'x', warranty: '2 years' }), {
    valid: true,
    problems: [],
  });
  const wrong = checkAgainst(schema, { name: 1, warranty: null });
  assert.equal(wrong.valid, false);
  assert.deepEqual(wrong.problems.map(({ path }) => path).toSorted(), ['', '/name']);
  const evil = { type: 'string', pattern: '^(a+)+$' };
  assert.equal(checkAgainst(evil, `${'a'.repeat(40)}!`).valid, false);
});

test('a definition with many references is compiled once', () => {
  const large = { anyOf: Array.from({ length: 900 }, (_, i) => ({ const: i })) };
  const fields = Array.from({ length: 700 }, (_, i) => [`f${i}`, { $ref: '#/$defs/large' }]);
  const wide = { type: 'object', $defs: { large }, properties: Object.fromEntries(fields) };
  assert.equal(checkAgainst(wide, { f5: 7, f699: 899 }).valid, true);
  assert.equal(checkAgainst(wide, { f5: 900 }).valid, false);
});

test('the number of reported problems is bounded, however a schema multiplies them', () => {
  const doubled = (word: string) => {
    const next = (n: number) => ({ $ref: `#/$defs/part${n + 1}` });
    const parts = Array.from({ length: 60 }, (_, n) => [
      `part${n}`,
      { [word]: [next(n), next(n)] },
    ]);
    const $defs = { ...Object.fromEntries(parts), part60: { type: 'string' } };
    return { $defs, $ref: '#/$defs/part0' };
  };
  const listed = { type: 'array', items: { allOf: Array.from({ length: 50 }, () => ({ type: 'string' })) } }; // prettier-ignore
  const costly: [schema: object, value: unknown][] = [
    [doubled('allOf'), 1],
    [doubled('anyOf'), 1],
    [doubled('oneOf'), 1],
    [listed, Array.from({ length: 10_000 }, () => 1)],
  ];
  for (const [one, value] of costly) {
    const rejected = { code: 'invalidInput', message: /more than 100000 errors/ };
    assert.throws(() => checkAgainst(one, value), rejected, JSON.stringify(one).slice(0, 80));
  }
  assert.equal(
    checkAgainst(listed, [1, 2]).problems.length,
    20,
    'problems of a small value are limited to 20',
  );
});

test('null is valid where the schema allows it, and otherwise counts as no field', () => {
  const properties = {
    title: { type: 'string' },
    weight: { type: ['number', 'null'] },
    tag: { type: 'string' },
    maker: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  };
  const required = ['title', 'weight'];
  const check = (value: object) => checkAgainst({ type: 'object', properties, required }, value);
  const given = { title: 'Lamp', weight: null, tag: null };
  assert.deepEqual(check(given), { valid: true, problems: [] });
  assert.deepEqual(given.tag, null, 'the value itself stays as it is');
  const nested = check({ ...given, maker: { name: null } }).problems;
  assert.deepEqual(nested, [{ path: '/maker', message: "must have required property 'name'" }]);
  const untitled = check({ ...given, title: null }).problems;
  assert.deepEqual(untitled, [{ path: '', message: "must have required property 'title'" }]);
  const page = extractFrom(product, url, { schema: { type: 'object', properties, required } });
  assert.deepEqual([(page.data as { tag: unknown }).tag, page.valid], [null, true]);
});

test('a model endpoint gets one retry with its problems listed', async () => {
  const replies = ['not json', '```json\n{"email":"a@b.test"}\n```'];
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      bodies.push(body);
      const content = replies.shift();
      if (content === undefined) response.writeHead(401).end('no key');
      else
        response.end(
          JSON.stringify({ choices: [{ message: { content } }], usage: { total_tokens: 7 } }),
        );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const egress = createEgress({ policy: { allow: [] }, clock: systemClock, log: silentLog });
  const pool = new PagePool({ clock: systemClock, threads: 1 });
  after(async () => {
    await pool.stop();
    await egress.close();
    server.close();
  });
  const endpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`,
    name: 'small',
    timeoutMs: 10_000,
    egress,
    reader: pool,
  };
  const request = extractFrom('<p>Write to a@b.test</p>', url, {
    schema: { email: 'string' },
  }).needsModel!;
  const { signal } = new AbortController();
  const answer = await askModel(request, endpoint, signal);
  assert.deepEqual(answer, {
    value: { email: 'a@b.test' },
    valid: true,
    problems: [],
    model: 'small',
    tokens: 14,
  });
  assert.match(bodies[1]!, /does not match the schema/);
  await assert.rejects(
    askModel(request, endpoint, signal),
    (error: AppError) => error.code === 'unavailable' && /keyName/.test(error.hint ?? ''),
  );
});

test('each schema is validated by the rules of its own draft', () => {
  const base = 'json-schema.org/draft';
  const rules: [name: string, schema: object, good: unknown, bad: unknown][] = [
    ['04', { type: 'number', minimum: 3, exclusiveMinimum: true }, 4, 3],
    ['06', { type: 'number', exclusiveMinimum: 3 }, 4, 3],
    ['07', { type: 'array', items: [{ type: 'string' }, { type: 'number' }] }, ['a', 1], ['a', 'b']], // prettier-ignore
    ['2019-09', { type: 'object', dependentRequired: { a: ['b'] } }, { a: 1, b: 2 }, { a: 1 }],
    ['2020-12', { type: 'array', prefixItems: [{ const: 'x' }] }, ['x'], ['y']],
  ];
  for (const [draft, schema, good, bad] of rules) {
    const path = draft.length > 2 ? `/${draft}` : `-${draft}`;
    for (const $schema of [`http://${base}${path}/schema#`, `https://${base}${path}/schema`]) {
      const part = { $schema, $ref: '#/definitions/one', definitions: { one: schema } };
      for (const whole of [{ ...schema, $schema }, part]) {
        assert.deepEqual(checkAgainst(whole, good).problems, [], `${draft} ${$schema}`);
        assert.equal(checkAgainst(whole, bad).valid, false, `${draft} ${$schema}`);
      }
    }
    assert.equal(checkAgainst(schema, good).valid, true, `${draft} without $schema`);
    assert.equal(checkAgainst(schema, bad).valid, false, `${draft} without $schema`);
  }
  const old = { $schema: `http://${base}-04/schema#`, id: 'http://a.test/s', properties: { id: { enum: ['id'] }, exclusiveMinimum: { maximum: 5, exclusiveMaximum: false } } }; // prettier-ignore
  assert.equal(checkAgainst(old, { id: 'id', exclusiveMinimum: 5 }).valid, true);
  assert.equal(checkAgainst(old, { id: 'x' }).valid, false);
  assert.equal(checkAgainst(old, { exclusiveMinimum: 6 }).valid, false);
  assert.throws(() => readSchema({ $schema: `http://${base}-07/schema#`, type: 'strin' }), /not a JSON Schema/); // prettier-ignore
  const own = { $schema: 'https://spec.openapis.org/oas/3.1/dialect/base', type: 'string' };
  assert.equal(
    checkAgainst(own, 5).valid,
    false,
    'an unknown dialect is treated as the newest draft',
  );
});

test('a schema may refer to itself, and one with the id of a meta schema does not affect others', () => {
  const tree = {
    type: 'object',
    properties: { name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#' } } },
  };
  for (const schema of [tree, { ...tree, $id: 'https://a.test/tree' }]) {
    assert.equal(checkAgainst(schema, { parts: [{ name: 'a' }] }).valid, true);
    assert.equal(checkAgainst(schema, { parts: [{ parts: [{ name: 1 }] }] }).valid, false);
  }
  const $id = 'https://json-schema.org/draft/2020-12/schema';
  const nested = { properties: { a: { $id: 'https://a.test/part', type: 'string' } } };
  for (const schema of [{ $id, type: 'string' }, { properties: { a: { $id } } }, nested]) {
    try {
      checkAgainst(schema, 'x');
    } catch {
      // Whether it is rejected or not, the next caller must not be affected.
    }
  }
  assert.throws(() => readSchema({ $schema: $id, type: 'strin' }), /not a JSON Schema/);
  assert.throws(() => readSchema({ $ref: 'https://a.test/part' }), /not a JSON Schema/);
});
