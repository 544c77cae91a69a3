// One job cannot block the others: rules that need endless work, servers that never respond, payouts stopped by a pause.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SchemaChecks } from '../../../src/kinds/escrow/evaluators/schema-checks.ts';
import { guardedFetch, vetUrl } from '../../../src/kinds/escrow/outbound.ts';
import { createEgress } from '../../../src/runtime/egress/index.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { openSite } from './site.ts';
import { createWorld, hourMs, isoIn, posted, refusal, type Agent, type World } from './world.ts';

/** Each definition refers twice to the next: 2^50 evaluations of one small delivery. */
function endlessSchema(): object {
  const definitions: Record<string, object> = { d50: { type: 'object' } };
  for (let n = 0; n < 50; n++) {
    const next = { $ref: `#/$defs/d${n + 1}` };
    definitions[`d${n}`] = { allOf: [next, next] };
  }
  return { $defs: definitions, $ref: '#/$defs/d0' };
}

const rule = (schema: object) => ({ type: 'json_schema', schema });

async function delivered(
  world: World,
  client: Agent,
  provider: Agent,
  more: object,
  content = '{}',
) {
  const job = await posted(world, client, provider, { fund: true, repeat: true, ...more });
  await world.call(provider, 'submit_work', { id: job.id, content });
  return job.id as string;
}

test('a JSON Schema that needs endless work fails its own job and delays no other', async (t) => {
  const settings = { maxSchemaMs: 1000, maxEvaluationTries: 4 };
  const world = await createWorld(t, { settings });
  t.after(() => world.services.schemas.stop());
  const [client, provider] = [await world.agent('client', '10.00'), await world.agent('provider')];
  const job = (id: string) => world.call(client, 'get_job', { id });
  for (const schema of [endlessSchema(), { $ref: '#' }]) {
    const endless = await delivered(world, client, provider, { rule: rule(schema) });
    await world.services.sweeper.sweep();
    const waiting = await job(endless);
    assert.equal(waiting.stage, 'submitted');
    assert.match(waiting.evaluation.waitingBecause, /^json_schema: the check (took|failed)/);
    const other = await delivered(world, client, provider, { rule: rule({ type: 'object' }) });
    for (let tries = 1; tries < settings.maxEvaluationTries; tries++) {
      world.clock.jump(600_000);
      await world.services.sweeper.sweep();
    }
    assert.equal((await job(other)).stage, 'completed', 'the next check gets a new thread');
    assert.equal((await job(endless)).stage, 'rejected', 'the last attempt counts');
  }
});

test('a stopped server ends its schema check, and the next check starts no thread', async () => {
  const checks = new SchemaChecks(60_000);
  const check = (schema: object) => checks.check({ ...schema }, Buffer.from('{}'));
  const endless = check(endlessSchema());
  await checks.stop();
  assert.deepEqual(await endless, { broken: 'was stopped' });
  assert.deepEqual(await check({ type: 'object' }), { broken: 'was stopped' });
});

test('schema patterns run in linear time, and unsupported patterns are refused', async (t) => {
  const world = await createWorld(t);
  t.after(() => world.services.schemas.stop());
  const [client, provider] = [await world.agent('client', '10.00'), await world.agent('provider')];
  const trap = { rule: rule({ type: 'string', pattern: '^(a+)+$' }) };
  const text = JSON.stringify(`${'a'.repeat(5000)}!`);
  const id = await delivered(world, client, provider, trap, text);
  await world.services.sweeper.sweep();
  assert.equal((await world.call(client, 'get_job', { id })).stage, 'rejected');
  const ahead = { rule: rule({ type: 'string', pattern: '^(?=a)b' }) };
  assert.equal(await refusal(posted(world, client, provider, ahead)), 'ruleCannotRun');
});

test('no deadline waits for a server that never responds', async (t) => {
  const site = await openSite(t, () => undefined);
  const egress = createEgress({
    policy: { allow: [site.host] },
    clock: systemClock,
    log: silentLog,
  });
  t.after(() => egress.close());
  const world = await createWorld(t, {
    settings: { maxEvaluations: 1, maxHttpTries: 1 },
    deps: { fetch: guardedFetch(egress), vetUrl: (url) => vetUrl(egress, url) },
  });
  const [client, provider] = [await world.agent('client', '10.00'), await world.agent('provider')];
  const rule = { type: 'http_check', url: site.url, timeoutMs: 1500 };
  const slow = { rule, silence: 'refund' };
  const stuck = [
    await delivered(world, client, provider, slow),
    await delivered(world, client, provider, slow),
  ];
  const late = await posted(world, client, provider, { fund: true, repeat: true });
  const { sweeper } = world.services;
  await sweeper.turn();
  const stages = () =>
    Promise.all(
      [late.id, ...stuck].map(async (id) => (await world.call(client, 'get_job', { id })).stage),
    );
  world.clock.jump(25 * hourMs);
  await sweeper.turn();
  assert.deepEqual(await stages(), ['expired', 'submitted', 'submitted'], 'a rule gets more time');
  world.clock.jump(world.services.settings.maxEvaluationMs);
  await sweeper.turn();
  assert.deepEqual(await stages(), ['expired', 'expired', 'expired'], 'but only once');
  assert.equal(
    await world.balance(client),
    10_000_000,
    'everything was refunded while the requests were pending',
  );
  await sweeper.finish();
  assert.equal(await world.balance(client), 10_000_000, 'a late response changes nothing');
});

test('many payouts stopped by a pause do not delay a refund', async (t) => {
  const world = await createWorld(t);
  const [client, provider] = [await world.agent('client', '10.00'), await world.agent('provider')];
  const silent = { budget: '1000', silence: 'release', expiresAt: isoIn(world, hourMs) };
  for (let n = 0; n < 101; n++) await delivered(world, client, provider, silent);
  await posted(world, client, provider, { fund: true, budget: '5000', repeat: true });
  await world.call(world.admin, 'pause_escrow', { paused: true });
  world.clock.jump(25 * hourMs);
  await world.services.sweeper.turn();
  assert.equal(await world.balance(client), 10_000_000 - 101 * 1000, 'the refund went out');
  assert.equal(await world.balance(provider), 0);
  await world.call(world.admin, 'pause_escrow', { paused: false });
  await world.services.sweeper.sweep();
  assert.equal(await world.balance(provider), 101 * 930, 'the payouts follow after the pause');
});
