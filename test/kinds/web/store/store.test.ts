// The web kind's store on every database: frontier, fence, counts, paging, bodies, full text, usage.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { webPlugin } from '../../../../src/kinds/web/index.ts';
import { insertPage, PageStore, type PageBody } from '../../../../src/kinds/web/store/pages.ts';
import {
  addCount,
  addQueued,
  insertUrl,
  reopenUrl,
  requeueUrl,
  saveCrawl,
  setHost,
  updateUrl,
} from '../../../../src/kinds/web/store/crawl-steps.ts';
import { WebStore } from '../../../../src/kinds/web/store/crawls.ts';
import type { NewUrl } from '../../../../src/kinds/web/store/rows.ts';
import { chargeSteps, UsageStore, type Spent } from '../../../../src/kinds/web/store/usage.ts';
import { stores, type StoreFactory } from '../../../helpers/stores.ts';

const row = (seq: number, more: Partial<NewUrl> = {}): NewUrl => ({
  seq,
  key: `key-${seq}`,
  url: `http://a.test/${seq}`,
  host: 'a.test',
  depth: seq % 3,
  parent: seq === 1 ? null : 1,
  via: 'link',
  outcome: 'queued',
  ...more,
});

for (const factory of stores) contract(factory);

function contract(factory: StoreFactory): void {
  test(`${factory.name}: the frontier returns URLs by host and depth; an outcome is set once, under the fencing token`, async (t) => {
    const store = await factory.open(t, webPlugin.migrations);
    const web = new WebStore(store);
    const crawl = await web.open('job_1', 'me', 1000);
    assert.equal((await web.open('job_1', 'me', 2000)).crawl, crawl.crawl, 'opened once');
    await web.takeOver(crawl.crawl, 'one');
    const id = crawl.crawl;
    const rows = [1, 2, 3, 4, 5, 6].map((seq) => row(seq, seq === 6 ? { host: 'b.test' } : {}));
    const born = [
      ...rows.map((one) => insertUrl(id, one)),
      addQueued(id, 'a.test', 5),
      addQueued(id, 'b.test', 1),
      addCount(id, 'queued', 6),
      saveCrawl(id, { ...crawl, seqNext: 7 }),
    ];
    assert.equal(await web.commit(id, 'one', born), true);
    assert.deepEqual(
      (await web.next(id, 'a.test', 5000, 10)).map(({ seq }) => seq),
      [3, 1, 4, 2, 5],
    );
    assert.deepEqual((await web.readyHosts(id, 5000, 10)).map(({ host }) => host).toSorted(), [
      'a.test',
      'b.test',
    ]);
    const done = [
      updateUrl(id, { seq: 3, outcome: 'fetched', pageHash: 'h', etag: '"e"', nth: 1 }),
      addQueued(id, 'a.test', -1),
      addCount(id, 'queued', -1),
      addCount(id, 'fetched', 1),
    ];
    assert.equal(await web.commit(id, 'one', done), true);
    assert.equal(
      await web.commit(id, 'one', done),
      false,
      'a second result of one row changes nothing',
    );
    assert.deepEqual(await web.counts(id), { queued: 5, fetched: 1 });
    const later = [
      updateUrl(id, { seq: 1, outcome: 'queued', readyAt: 9000, tries: 1 }),
      setHost(id, { host: 'b.test', readyAt: 8000, failures: 1, rests: 0 }),
    ];
    await web.commit(id, 'one', later);
    assert.deepEqual(
      (await web.next(id, 'a.test', 5000, 10)).map(({ seq }) => seq),
      [4, 2, 5],
    );
    assert.equal(await web.nextHostAt(id, 5000), 8000);
    assert.equal(await web.leastDepth(id), 0, 'of a host that rests');
    assert.deepEqual(
      (await web.readyHosts(id, 5000, 10, 1)).map(({ host }) => host),
      ['a.test'],
    );
    assert.deepEqual(
      await web.readyHosts(id, 5000, 10, 0),
      [],
      'its only one is at the other host',
    );
    const atOne = async (now: number) =>
      (await web.nextAt(id, { host: 'a.test', depth: 1 }, now, 10)).map(({ seq }) => seq);
    assert.deepEqual(await atOne(5000), [4]);
    assert.deepEqual(await atOne(9000), [4, 1], 'those that are tried again come last');
    assert.equal(await web.nextUrlAt(id, 'a.test', 1), 9000);
    assert.equal(await web.nextUrlAt(id, 'a.test', 7), undefined);
    assert.deepEqual(
      (await web.readyHosts(id, 5000, 10)).map(({ host }) => host),
      ['a.test'],
    );
    await web.takeOver(id, 'two');
    assert.equal(
      await web.commit(id, 'one', [addCount(id, 'fetched', 1)]),
      false,
      'the runner before can write nothing',
    );
    const known = await web.known(id, ['key-3', 'key-99']);
    assert.equal(known.get('key-3')!.etag, '"e"');
    assert.equal(known.size, 1);
    assert.equal((await web.samePage(id, 'h'))!.seq, 3);
    assert.deepEqual((await web.children(id, 1, 10)).length, 5);
    await web.commit(id, 'two', [
      updateUrl(id, {
        seq: 4,
        outcome: 'duplicate',
        reason: 'canonical',
        target: 'http://a.test/3',
      }),
    ]);
    assert.deepEqual(
      (await web.aliasesOf(id, ['http://a.test/3'])).map(({ seq, host }) => [seq, host]),
      [[4, 'a.test']],
    );
    await web.commit(id, 'two', [requeueUrl(id, 4, 'duplicate', 1)]);
    assert.equal((await web.next(id, 'a.test', 5000, 1))[0]!.flags, 1);
    const listed = await web.list(id, { after: 2, limit: 2, outcomes: ['fetched', 'queued'] });
    assert.deepEqual(
      listed.map(({ seq }) => seq),
      [3, 4],
    );
    await web.commit(id, 'two', [
      updateUrl(id, { seq: 2, outcome: 'unchanged', change: 'same', nth: 2 }),
    ]);
    const pagesAfter = async (after: number, more: { change?: string } = {}) => {
      const outcomes = ['fetched', 'unchanged'] as const;
      return (await web.listPages(id, { after, limit: 5, outcomes, ...more })).map(
        ({ seq }) => seq,
      );
    };
    assert.deepEqual(await pagesAfter(0), [3, 2], 'as they came in');
    assert.deepEqual(await pagesAfter(1), [2]);
    assert.deepEqual(await pagesAfter(0, { change: 'same' }), [2]);
    const outside = row(9, { outcome: 'skipped', reason: 'external' });
    await web.commit(id, 'two', [insertUrl(id, outside), reopenUrl(id, 9, { ...outside, depth: 1 })]); // prettier-ignore
    assert.equal((await web.byKey(id, 'key-9'))!.outcome, 'queued');
    const way = [
      row(20, { outcome: 'redirected' }),
      row(21, { outcome: 'redirected', parent: 20, hops: 1 }),
      row(22, { parent: 21, hops: 2 }),
      row(23, { parent: 22 }),
    ];
    const ways = way.map((one) => insertUrl(id, one));
    assert.equal(await web.commit(id, 'two', ways), true);
    assert.deepEqual(
      [...(await web.askedFor(id, [22, 23]))],
      [[22, 'http://a.test/20']],
      'through every redirect on the way; a link is none',
    );
    const turn = (seq: number) => [
      updateUrl(id, { seq, outcome: 'redirected', target: 'http://a.test/22' }),
    ];
    await web.commit(id, 'two', [...turn(4), ...turn(23)]);
    const sent = async (flags: number) =>
      (await web.redirectedTo(id, 'http://a.test/22', flags))
        .map(({ seq }) => seq)
        .toSorted((a, b) => a - b);
    assert.deepEqual(await sent(2), [4, 23], 'whatever its other flags');
    await web.commit(id, 'two', [requeueUrl(id, 4, 'redirected', 2), ...turn(4)]);
    assert.deepEqual(await sent(2), [23]);
    assert.deepEqual(await sent(1), [23], 'a flag stays');
    const newer = await web.open('job_2', 'me', 1000);
    assert.deepEqual(
      (await web.unseen(id, newer.crawl, 0, 10)).map(({ seq }) => seq),
      [2, 3],
    );
    await web.forget(['job_1']);
    assert.equal(await web.find('job_1'), undefined);
  });

  test(`${factory.name}: bodies by field, full text by owner, usage by day`, async (t) => {
    const store = await factory.open(t, webPlugin.migrations);
    const web = new WebStore(store);
    const pages = new PageStore(store);
    const { crawl } = await web.open('job_1', 'me', 1000);
    const body = (seq: number, markdown: string, owner = 'me') =>
      insertPage(crawl, {
        seq,
        owner,
        url: `http://a.test/${seq}`,
        title: `Title ${seq}`,
        markdown,
        raw: Buffer.from('<p>'),
        links: [{ url: 'x' }],
        at: 5,
      });
    await store.commit([
      body(1, 'the quick brown fox'),
      body(2, 'a slow green turtle and a fox'),
      body(3, 'fox of another', 'other'),
      body(1, 'again'),
    ]);
    const read = await pages.bodies(crawl, [1, 2], ['markdown', 'links', 'raw']);
    assert.deepEqual(read.get(1), {
      markdown: 'the quick brown fox',
      links: [{ url: 'x' }],
      raw: '<p>',
    });
    const hits = await pages.search('me', 'fox', { limit: 10 });
    assert.deepEqual(hits.map(({ url }) => url).toSorted(), ['http://a.test/1', 'http://a.test/2']);
    assert.match(hits[0]!.snippet, /fox/);
    assert.equal(hits[0]!.jobId, 'job_1');
    assert.equal((await pages.search(undefined, 'fox', { limit: 10 })).length, 3);
    assert.deepEqual(await pages.search('me', `"); DROP TABLE web_pages; -- '`, { limit: 10 }), []);
    await pages.forget(crawl);
    assert.deepEqual(await pages.search('me', 'fox', { limit: 10 }), []);
    const usage = new UsageStore(store);
    const spend = (owner: string, at: string, action: string, spent: Spent) =>
      usage.commit(chargeSteps({ id: 'job_1', owner }, action, spent, Date.parse(at)));
    await spend('me', '2026-01-31', 'crawl', { credits: 2, pages: 2, calls: 1 });
    await spend('me', '2026-01-31', 'crawl', { credits: 3, bytes: 10 });
    await spend('me', '2026-02-01T00:00Z', 'map', { credits: 1 });
    await spend('me', '2026-03-01T23:10Z', 'map', { credits: 1 });
    await spend('me', '2026-03-01T09:59Z', 'map', { credits: 4, calls: 1 });
    await spend('me', '2026-03-02T00:00Z', 'map', { credits: 8 });
    await spend('you', '2026-03-01T09:00Z', 'map', { credits: 50 });
    const march = (by: 'day' | 'hour') => usage.rows('me', '2026-03-01', '2026-03-01', by);
    const matches = async (by: 'day' | 'hour') =>
      (await march(by)).map(({ day, credits }) => [day, credits]);
    assert.deepEqual(await matches('day'), [['2026-03-01', 5]]);
    assert.deepEqual(await matches('hour'), [
      ['2026-03-01T09', 4],
      ['2026-03-01T23', 1],
    ]);
    assert.equal(await usage.creditsSince('me', '2026-01-31'), 19);
    assert.equal(await usage.creditsSince('me', '2026-02-01'), 14);
    const [first] = await usage.rows('me', '2026-01-01', '2026-01-31');
    assert.deepEqual(
      { ...first },
      {
        day: '2026-01-31',
        action: 'crawl',
        calls: 1,
        credits: 5,
        pages: 2,
        bytes: 10,
        browserMs: 0,
      },
    );
  });
}

const texts: Record<string, [title: string, text: string]> = {
  'http://a.test/en': ['Lamps', '# Lamps\n\nThe quick brown fox reads [under](http://hidden.test/) a lamp. Naïve café owners write e-mail.'],
  'http://docs.a.test:8080/fox': ['Fox', 'A brown bear met a quick fox, and nobody read.'],
  'http://b.test/ja': ['天気', '東京都の天気は晴れです。カメラを持って行く。'],
  'http://b.test/ja2': ['京都', '京都の東にある天の気配。'],
  'http://b.test/hi': ['हिन्दी', 'यह हिन्दी में लिखा है'],
  'http://b.test/ru': ['Новости', 'Погода в Москве сегодня'],
  'http://b.test/th': ['ไทย', 'สวัสดีชาวโลก'],
  'http://b.test/code': ['Code', `snake_case_name v1.2.3 C++ ${'x'.repeat(3000)}`],
}; // prettier-ignore

for (const factory of stores) {
  test(`${factory.name}: words, phrases, exclusions, sites and every script are searched identically`, async (t) => {
    const store = await factory.open(t, webPlugin.migrations);
    const web = new WebStore(store);
    const pages = new PageStore(store);
    const { crawl } = await web.open('job_1', 'me', 1);
    const body = (seq: number, url: string, owner = 'me', at = 1): PageBody => {
      const [title, markdown] = texts[url]!;
      return { seq, url, owner, at, title, markdown };
    };
    const urls = Object.keys(texts);
    await store.commit(urls.map((url, i) => insertPage(crawl, body(i + 1, url))));
    const other = await web.open('job_2', 'you', 1);
    await store.commit([insertPage(other.crawl, body(1, urls[0]!, 'you'))]);
    const find = async (query: string, window = { limit: 10 }, owner = 'me') =>
      (await pages.search(owner, query, window)).map(({ url }) => new URL(url).pathname.slice(1));
    const expected: [string, string[]][] = [
      ['quick brown fox', ['en', 'fox']],
      ['"brown fox"', ['en']],
      ['"quick fox" bear', ['fox']],
      ['brown -bear', ['en']],
      ['brown -"quick fox"', ['en']],
      ['brown site:a.test', ['en', 'fox']],
      ['brown site:docs.a.test', ['fox']],
      ['brown site:est', []],
      ['site:a.test', []],
      ['-brown', []],
      ['NAIVE Cafe', ['en']],
      ['e-mail', ['en']],
      ['lamps', ['en']],
      ['hidden', []],
      ['東京', ['ja']],
      ['天気', ['ja']],
      ['カメラ', ['ja']],
      ['京都', ['ja2', 'ja']],
      ['हिन्दी', ['hi']],
      ['москве', ['ru']],
      ['ชาว', ['th']],
      ['snake_case_name', ['code']],
      ['case', ['code']],
      ['v1.2.3', ['code']],
      ['x'.repeat(3000), []],
      ['" OR ( * NEAR', []],
      [`'a' | !b <-> & \\ :*`, ['en', 'fox']],
      ['', []],
    ];
    for (const [query, paths] of expected) {
      const found = await find(query);
      assert.deepEqual(found.toSorted(), paths.toSorted(), query);
    }
    assert.deepEqual(
      (await find('quick brown fox reads'))[0],
      'en',
      'all of the words before some',
    );
    assert.deepEqual(await find('東京', { limit: 10 }, 'you'), [], 'another owner’s pages are not there'); // prettier-ignore
    assert.deepEqual(await find('lamp', { limit: 10 }, 'you'), ['en']);
    const [hit] = await pages.search('me', 'cafe owners', { limit: 1 });
    assert.match(
      hit!.snippet,
      /^Lamps The quick brown fox reads under a lamp\. Naïve café owners write/,
    );

    const both = await find('brown fox');
    assert.deepEqual([await find('brown fox', { limit: 1 }), await pages.search('me', 'brown fox', { limit: 5, offset: 2 })], [both.slice(0, 1), []]); // prettier-ignore
    const again = await web.open('job_3', 'me', 2);
    await store.commit([insertPage(again.crawl, body(1, urls[0]!, 'me', 5))]);
    const newest = await pages.search('me', 'reads lamp', { limit: 10 });
    assert.deepEqual(newest.map(({ jobId, at }) => [jobId, at]), [['job_3', 5]], 'an address is one hit, its newest page'); // prettier-ignore
    await pages.forget(again.crawl);
    const [older] = await pages.search('me', 'reads lamp', { limit: 10 });
    assert.equal(older!.jobId, 'job_1', 'what was forgotten is not found');
  });
}
