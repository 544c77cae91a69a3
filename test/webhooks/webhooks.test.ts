// Webhooks on every store: each event is delivered once, signed, retried, replayable, and not lost by a crash.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { viewJob } from '../../src/jobs/view.ts';
import { signWebhook } from '../../src/webhooks/signature.ts';
import { Webhooks } from '../../src/webhooks/webhooks.ts';
import type { WebhookSender } from '../../src/webhooks/sender.ts';
import { queueKey } from '../../src/jobs/intents.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { AppError } from '../../src/errors.ts';
import { createLog, silentLog } from '../../src/runtime/log.ts';
import { createCore, type Core } from '../helpers/jobs.ts';
import { stores } from '../helpers/stores.ts';
import { until } from '../helpers/until.ts';

const secret = Buffer.alloc(32, 7);

interface Received {
  url: string;
  headers: Record<string, string>;
  body: string;
}

async function start(
  t: TestContext,
  core: Core,
  send: WebhookSender,
  log = silentLog,
): Promise<Webhooks> {
  const { jobs, store } = core;
  const webhooks = new Webhooks({
    jobs,
    store,
    clock: systemClock,
    log,
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
    test('a subscriber receives each of its events once, signed, and no events of others', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const received: Received[] = [];
      const webhooks = await start(t, core, async (request) => (received.push(request), 200));
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
      assert.equal(received.length, 1);
      const body = JSON.parse(received[0]!.body) as {
        type: string;
        data: { job: { id: string; result: unknown } };
      };
      assert.deepEqual(
        [body.type, body.data.job.id, body.data.job.result],
        ['job.completed', mine, 42],
      );
      const { headers } = received[0]!;
      const timestamp = Number(headers['webhook-timestamp']);
      assert.ok(Math.abs(Date.now() / 1000 - timestamp) < 60, 'receivers refuse old messages');
      const signed = signWebhook({ id: delivery!.id, timestamp, body: received[0]!.body, secret });
      assert.equal(headers['webhook-signature'], signed['webhook-signature']);
      await webhooks.replay(delivery!.id);
      await until('it is delivered again', () => received.length === 2);
      assert.equal(received[1]!.headers['webhook-id'], delivery!.id);
    });

    test('a subscription gets no events from before it was created, even if an older one exists', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const received: Received[] = [];
      const webhooks = await start(t, core, async (request) => (received.push(request), 200));
      const subscription = { owner: 'ada', url: 'http://receiver.test/c' };
      await webhooks.create({ ...subscription, events: ['failed'] });
      const before = await core.jobs.get(await runOne(core));
      await until('its end is in the past', () => Date.now() > before.finishedAt!);
      const hook = await webhooks.create({ ...subscription, events: ['completed'] });
      const mine = await runOne(core);
      await until('it is delivered', () => received.length > 0);
      const { deliveries } = await webhooks.deliveries(hook.id, 10);
      assert.deepEqual(
        deliveries.map(({ jobId }) => jobId),
        [mine],
      );
    });

    test('a receiver that does not respond delays no other receiver', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const hung: (() => void)[] = [];
      const received: string[] = [];
      const webhooks = await start(t, core, async ({ url }) => {
        if (url.endsWith('/hangs')) await new Promise<void>((resolve) => hung.push(resolve));
        received.push(url);
        return 200;
      });
      t.after(() => hung.forEach((go) => go()));
      const subscription = { owner: 'ada', events: ['*'] };
      const dead = await webhooks.create({ ...subscription, url: 'http://receiver.test/hangs' });
      for (let i = 0; i < 4; i++) await runOne(core);
      await until('a request hangs', () => hung.length > 0);
      await webhooks.create({ ...subscription, url: 'http://receiver.test/answers' });
      await runOne(core);
      await until('the other receiver gets its events', () => received.length === 3);
      assert.ok(hung.length < 12, 'not all deliveries are sent concurrently');
      await webhooks.remove(dead.id);
      hung.forEach((go) => go());
      await until('no delivery is pending', async () => !(await webhooks.busy()));
    });

    test('a failed delivery is retried; deleting the webhook cancels pending deliveries', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      // A redirect is not followed and counts as a failure.
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
        const seen = deliveries
          .map(({ answer }) => answer ?? '')
          .toSorted((a, b) => (a < b ? -1 : 1));
        return seen.join() === 'HTTP 199,HTTP 302,HTTP 503' ? deliveries : undefined;
      });
      for (const { status, tries, nextAt } of waiting)
        assert.deepEqual([status, tries, nextAt > Date.now()], ['pending', 1, true]);
      assert.equal(await webhooks.busy(), true);
      await webhooks.remove(hook.id);
      assert.equal(await webhooks.busy(), false);
    });

    test("a failed delivery of a job's own webhook is shown on the job, in its events and in the log", async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const lines: string[] = [];
      const log = createLog('warn', (line) => lines.push(line));
      let isAllowed = false;
      const webhooks = await start(
        t,
        core,
        async () => {
          if (isAllowed) return 200;
          throw new AppError('egressRefused', '127.0.0.1 is private.', { hint: 'egress.allow' });
        },
        log,
      );
      const { job } = await core.jobs.submit({ kind: 'toy', owner: 'ada', input: {} });
      const hook = await webhooks.create({
        owner: 'ada',
        url: 'http://127.0.0.1:9/hook?token=1',
        events: ['*'],
        jobId: job.id,
      });
      await core.jobs.cancel(job.id, 'ada');
      const show = async () => viewJob(core.jobs, await core.jobs.get(job.id), Date.now());
      const failure = await until('the job shows it', async () => {
        return (await show()).webhookFailure as Record<string, unknown> | undefined;
      });
      assert.equal(failure.url, 'http://127.0.0.1:9/hook', 'without the token');
      assert.match(String(failure.answer), /egressRefused: 127.0.0.1 is private. egress.allow/);
      assert.ok(failure.nextTryAt);
      const types = async () =>
        (await core.jobs.ledger.events(job.id, 0, 10)).map(({ type }) => type);
      assert.deepEqual(await types(), ['submitted', 'cancelled', 'webhookFailed']);
      assert.ok(lines.some((line) => line.includes('a webhook was not accepted')));

      isAllowed = true;
      const { deliveries } = await webhooks.deliveries(hook.id, 10);
      assert.equal(deliveries.length, 1, 'the failure itself is not delivered');
      await core.store.commit([{ sql: 'UPDATE deliveries SET next_at = 0', params: [] }]);
      await until('it is delivered', async () => (await show()).webhookFailure === undefined);
      assert.deepEqual(await types(), [
        'submitted',
        'cancelled',
        'webhookFailed',
        'webhookDelivered',
      ]);
    });

    test('events committed while no server ran are delivered after the next start', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const received: Received[] = [];
      const make = () =>
        new Webhooks({
          jobs: core.jobs,
          store: core.store,
          clock: systemClock,
          log: silentLog,
          send: async (request) => (received.push(request), 204),
          secretOf: () => secret,
        });
      await make().create({ owner: 'ada', url: 'http://receiver.test/c', events: ['completed'] });
      const ids = [await runOne(core), await runOne(core)];
      // Two nodes start concurrently: each event is still sent once.
      const nodes = [make(), make()];
      for (const node of nodes) await node.start();
      t.after(() => Promise.all(nodes.map((node) => node.stop())));
      await until('both arrived', () => received.length >= 2);
      await until('no delivery is pending', async () => !(await nodes[0]!.busy()));
      const seen = received.map(
        ({ body }) => (JSON.parse(body) as { data: { job: { id: string } } }).data.job.id,
      );
      assert.deepEqual(seen.toSorted(), ids.toSorted());
      const view = await viewJob(core.jobs, await core.jobs.get(ids[0]!), Date.now());
      assert.equal(view.status, 'completed');
    });
  });
}
