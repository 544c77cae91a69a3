// The page pool: a page that exceeds a limit costs its thread, and no other page is affected.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import type { AppError } from '../../../../src/errors.ts';
import { PagePool } from '../../../../src/kinds/web/read/pool.ts';
import { until } from '../../../helpers/until.ts';
import { ManualClock, systemClock } from '../../../../src/runtime/clock.ts';

const html = '<html><head><title>Hi</title></head><body><p>Some text here.</p></body></html>';
const options = { url: 'https://example.test/', contentType: 'text/html' };

test('the pool reads pages in parallel threads and transfers their bytes', async () => {
  const pool = new PagePool({ clock: systemClock, threads: 2 });
  after(() => pool.stop());
  const pages = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      pool.read(new TextEncoder().encode(html.replace('Hi', `Hi ${i}`)), options),
    ),
  );
  assert.deepEqual(
    pages.map((page) => page.title),
    Array.from({ length: 20 }, (_, i) => `Hi ${i}`),
  );
  assert.equal(pool.size, 2);
  await assert.rejects(
    pool.read(Buffer.from([1, 0, 2]), { ...options, contentType: 'image/gif' }),
    (error: AppError) => error.code === 'unsupported',
  );
  assert.equal(pool.size, 2);
});

test('the pool fills schemas in its threads', async () => {
  const pool = new PagePool({ clock: systemClock, threads: 1 });
  after(() => pool.stop());
  const result = await pool.extract(html, options, { schema: { title: 'string' } });
  assert.deepEqual(result.data, { title: 'Hi' });
  await assert.rejects(
    pool.extract(html, options, { schema: { type: 'nonsense', properties: {} } }),
    (error: AppError) => error.code === 'invalidInput',
  );
});

/** Too large to be read before the clock advances in the same turn. */
const page = (tables: number) => '<table><tr><td>x</td></tr></table>'.repeat(tables);

test('a page that exceeds the time limit is stopped, and a new thread reads the next page', async () => {
  const pool = new PagePool({ clock: systemClock, threads: 1, pageTimeoutMs: 300 });
  after(() => pool.stop());
  await pool.read(html, options);
  const slow = pool.read(page(100_000), options);
  const next = pool.read(html, options);
  await assert.rejects(slow, (error: AppError) => error.code === 'timeout');
  assert.equal((await next).title, 'Hi');
});

test('the time limit of a page counts CPU time, up to a multiple of it', async () => {
  const clock = new ManualClock();
  const pool = new PagePool({ clock, threads: 1, pageTimeoutMs: 60_000 });
  after(() => pool.stop());
  await pool.read(html, options);
  const slow = pool.read(page(10_000), options);
  await clock.advance(60_001);
  assert.equal((await slow).kind, 'html');
  const stuck = assert.rejects(
    pool.read(page(10_000), options),
    (error: AppError) => error.code === 'timeout',
  );
  await clock.advance(360_001);
  await stuck;
});

test('a thread without work ends, and the next page starts a new one', async () => {
  const clock = new ManualClock();
  const pool = new PagePool({ clock, threads: 2, threadIdleMs: 15_000 });
  after(() => pool.stop());
  await Promise.all([pool.read(html, options), pool.read(html, options)]);
  await clock.advance(14_999);
  assert.equal(pool.size, 2);
  await pool.read(html, options);
  await clock.advance(14_999);
  assert.equal(pool.size, 1);
  await clock.advance(1);
  assert.equal(pool.size, 0);
  assert.equal((await pool.read(html, options)).title, 'Hi');
});

test('a thread returns the heap that a large page needed', async () => {
  const thread = new Worker(new URL('../../../../src/kinds/web/read/worker.ts', import.meta.url));
  after(() => thread.terminate());
  const heapMb = async () => (await thread.getHeapStatistics()).total_heap_size / 2 ** 20;
  const replies: unknown[] = [];
  thread.on('message', (message) => replies.push(message));
  thread.postMessage({ body: page(30_000), options });
  let most = 0;
  await until('the page is read', async () => {
    most = Math.max(most, await heapMb());
    return replies.length === 2;
  });
  await until('the heap is small again', async () => (await heapMb()) < most / 2);
});

test('a stopped pool rejects new and waiting pages', async () => {
  const pool = new PagePool({ clock: systemClock, threads: 1 });
  const waiting = [pool.read(html, options), pool.read(html, options)];
  const settled = Promise.allSettled(waiting);
  await pool.stop();
  assert.deepEqual(
    (await settled).map((result) => result.status),
    ['rejected', 'rejected'],
  );
  await assert.rejects(pool.read(html, options), /stopped/);
});
