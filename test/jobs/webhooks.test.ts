// Webhooks on every store: each event once, signed, tried again, replayed, never missed by a crash.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { viewJob } from '../../src/jobs/view.ts';
import { signWebhook } from '../../src/jobs/webhook-signature.ts';
import { Webhooks } from '../../src/jobs/webhooks.ts';
import type { WebhookSender } from '../../src/jobs/webhook-delivery.ts';
import { queueKey } from '../../src/jobs/intents.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { createCore, type Core } from '../helpers/jobs.ts';
import { stores } from '../helpers/stores.ts';
import { until } from '../helpers/until.ts';

const secret = Buffer.alloc(32, 7);

interface Got {
  url: string;
  headers: Record<string, string>;
  body: string;
}

async function start(t: TestContext, core: Core, send: WebhookSender): Promise<Webhooks> {
  const { jobs, store } = core;
  const webhooks = new Webhooks({
    jobs,
    store,
    clock: systemClock,
    log: silentLog,
    send,
    secretOf: () => secret,
  });
  await webhooks.start();
  t.after(() => webhooks.stop());
  return webhooks;
}

async function runOne(core: Core, owner = 'ada'): Promise<string> {
  const { job } = await core.jobs.submit({ kind: 'toy', owner, input: {} });
  const [running] = await core.jobs.claim({
    queues: [{ name: queueKey('toy', 'default') }],
    limit: 1,
    holder: 'n',
    node: 'n',
    leaseMs: 30_000,
  });
  await core.jobs.finish(
    { jobId: running!.id, attemptId: running!.attemptId },
    { type: 'completed', result: 42 },
  );
  return job.id;
}

for (const factory of stores) {
  describe(`webhooks on ${factory.name}`, () => {
    test('an event reaches its subscribers once, signed, and only theirs', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const got: Got[] = [];
      const webhooks = await start(t, core, async (request) => (got.push(request), 200));
      await runOne(core);
      const hook = await webhooks.create({
        owner: 'ada',
        url: 'http://receiver.test/a',
        events: ['completed'],
      });
      const mine = await runOne(core);
      await runOne(core, 'bob');
      const [delivery] = await until('it is delivered', async () => {
        const { deliveries } = await webhooks.deliveries(hook.id, 10);
        return deliveries.length > 0 && deliveries.every(({ status }) => status === 'delivered')
          ? deliveries
          : undefined;
      });
      assert.equal(got.length, 1);
      const body = JSON.parse(got[0]!.body) as {
        type: string;
        data: { job: { id: string; result: unknown } };
      };
      assert.deepEqual(
        [body.type, body.data.job.id, body.data.job.result],
        ['job.completed', mine, 42],
      );
      const { headers } = got[0]!;
      const timestamp = Number(headers['webhook-timestamp']);
      assert.ok(Math.abs(Date.now() / 1000 - timestamp) < 60, 'receivers refuse old messages');
      const signed = signWebhook({ id: delivery!.id, timestamp, body: got[0]!.body, secret });
      assert.equal(headers['webhook-signature'], signed['webhook-signature']);
      await webhooks.replay(delivery!.id);
      await until('it came again', () => got.length === 2);
      assert.equal(got[1]!.headers['webhook-id'], delivery!.id);
    });

    test('a subscription hears of nothing that was before it, also where another one is older', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const got: Got[] = [];
      const webhooks = await start(t, core, async (request) => (got.push(request), 200));
      const wish = { owner: 'ada', url: 'http://receiver.test/c' };
      await webhooks.create({ ...wish, events: ['failed'] });
      const before = await core.jobs.get(await runOne(core));
      await until('its end is past', () => Date.now() > before.finishedAt!);
      const hook = await webhooks.create({ ...wish, events: ['completed'] });
      const mine = await runOne(core);
      await until('it is told', () => got.length > 0);
      const { deliveries } = await webhooks.deliveries(hook.id, 10);
      assert.deepEqual(
        deliveries.map(({ jobId }) => jobId),
        [mine],
      );
    });

    test('a receiver that does not answer holds up nobody else', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const hung: (() => void)[] = [];
      const got: string[] = [];
      const webhooks = await start(t, core, async ({ url }) => {
        if (url.endsWith('/hangs')) await new Promise<void>((resolve) => hung.push(resolve));
        got.push(url);
        return 200;
      });
      t.after(() => hung.forEach((go) => go()));
      const wish = { owner: 'ada', events: ['*'] };
      const dead = await webhooks.create({ ...wish, url: 'http://receiver.test/hangs' });
      for (let i = 0; i < 4; i++) await runOne(core);
      await until('it hangs', () => hung.length > 0);
      await webhooks.create({ ...wish, url: 'http://receiver.test/answers' });
      await runOne(core);
      await until('the other one hears', () => got.length === 3);
      assert.ok(hung.length < 12, 'not all of it at once');
      await webhooks.remove(dead.id);
      hung.forEach((go) => go());
      await until('nothing is left', async () => !(await webhooks.busy()));
    });

    test('a receiver that fails is tried again; deleting gives up what waits', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      // A redirect is no receipt either: nobody follows it.
      const answers = [503, 302, 199];
      const webhooks = await start(t, core, async () => answers.pop()!);
      const hook = await webhooks.create({
        owner: 'ada',
        url: 'http://receiver.test/b',
        events: ['*'],
      });
      await runOne(core);
      const waiting = await until('all three were tried', async () => {
        const { deliveries } = await webhooks.deliveries(hook.id, 10);
        const told = deliveries
          .map(({ answer }) => answer ?? '')
          .toSorted((a, b) => (a < b ? -1 : 1));
        return told.join() === 'HTTP 199,HTTP 302,HTTP 503' ? deliveries : undefined;
      });
      for (const { status, tries, nextAt } of waiting)
        assert.deepEqual([status, tries, nextAt > Date.now()], ['pending', 1, true]);
      assert.equal(await webhooks.busy(), true);
      await webhooks.remove(hook.id);
      assert.equal(await webhooks.busy(), false);
    });

    test('what was committed while nobody delivered is delivered by the next start', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const got: Got[] = [];
      const make = () =>
        new Webhooks({
          jobs: core.jobs,
          store: core.store,
          clock: systemClock,
          log: silentLog,
          send: async (request) => (got.push(request), 204),
          secretOf: () => secret,
        });
      await make().create({ owner: 'ada', url: 'http://receiver.test/c', events: ['completed'] });
      const ids = [await runOne(core), await runOne(core)];
      // Two nodes start at once: each event is still sent once.
      const nodes = [make(), make()];
      for (const node of nodes) await node.start();
      t.after(() => Promise.all(nodes.map((node) => node.stop())));
      await until('both arrived', () => got.length >= 2);
      await until('nothing waits', async () => !(await nodes[0]!.busy()));
      const seen = got.map(
        ({ body }) => (JSON.parse(body) as { data: { job: { id: string } } }).data.job.id,
      );
      assert.deepEqual(seen.toSorted(), ids.toSorted());
      const view = await viewJob(core.jobs, await core.jobs.get(ids[0]!), Date.now());
      assert.equal(view.status, 'completed');
    });
  });
}
