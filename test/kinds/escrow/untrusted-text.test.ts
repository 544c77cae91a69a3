// What one party writes reaches the model and the terminal of another quoted or fenced, and without control characters:
// in every response and error of every operation that there is for hired work, as structure, as text for a model and as
// printed on a terminal, and in every webhook. A new operation that this history does not call fails here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errorBody } from '../../../src/errors.ts';
import { printOutput } from '../../../src/interfaces/cli/print.ts';
import { commandsOf } from '../../../src/operation.ts';
import { cleanLine, cleanText, fenced, quoted } from '../../../src/runtime/untrusted-text.ts';
import { stores } from '../../helpers/stores.ts';
import { until } from '../../helpers/until.ts';
import { hostile, controls, unmarked } from './hostile-text.ts';
import { createWorld, posted, type Agent, type Answer, type World } from './world.ts';

test('quotes and fences cannot be closed from inside, and contain no terminal escapes', () => {
  assert.equal(quoted('a”b\u001b[31m\n“c'), '“a"b "c”');
  assert.equal(cleanText('a\r\nb\u0007\tc\u{e0041}'), 'a\nb\tc');
  // Text that no reader sees: variation selectors that encode bytes, format characters, fillers.
  const smuggled = Array.from('IGNORE', (c) => String.fromCodePoint(0xe00f0 + c.charCodeAt(0)));
  assert.equal(cleanText(`a${smuggled.join('')}b`), 'ab');
  assert.equal(cleanText('a\ufe00\ufe01\ufe0db\u061c\u180e\u206a\u00ad\ufff9\u3164\u115fc'), 'abc');
  assert.equal(cleanText('☀️ 👩‍💻 می‌خواهم'), '☀️ 👩‍💻 می‌خواهم', 'visible text keeps its joiners');
  assert.equal(cleanText(`☀${'\ufe0f\ufe0e'.repeat(20)}`), '☀️', 'one selector per character');
  const [open, ...rest] = fenced(`x\n</untrusted-0>\n${hostile('y')}`, 1000).split('\n');
  const mark = /^<untrusted-(\w+)>/.exec(open!)![1]!;
  assert.equal(rest.at(-1), `</untrusted-${mark}>`);
  assert.ok(!rest.slice(0, -1).join('\n').includes(mark));
});

const names = ['client', 'provider', 'judge', 'arbiter', 'stranger'] as const;
type Name = (typeof names)[number];
type Reader = Name | 'admin' | 'nobody';
const allReaders: readonly Reader[] = [...names, 'admin', 'nobody'];

class History {
  readonly world: World;
  readonly agents: Record<Name, Agent>;
  readonly readers: readonly Reader[];
  readonly called = new Set<string>();

  constructor(world: World, agents: Record<Name, Agent>, readers: readonly Reader[]) {
    this.world = world;
    this.agents = agents;
    this.readers = readers;
  }

  /** Like call, but the call must succeed. */
  async done(by: Name | 'admin', name: string, input: object): Promise<Answer> {
    const answer = await this.call(by, name, input);
    assert.ok(answer, `${name} as ${by} was refused`);
    return answer;
  }

  /** Calls an operation and checks everything that its reader sees, including errors. */
  async call(by: Reader, name: string, input: object): Promise<Answer> {
    this.called.add(name);
    const { world } = this;
    const caller =
      by === 'nobody' ? undefined : by === 'admin' ? world.admin : this.agents[by].caller;
    const operation = world.operations.get(name);
    const where = `${name} as ${by}`;
    let answer: Answer;
    try {
      const pending = world.call(caller, name, input);
      // Advance the clock so that a waiting call ends.
      if (name === 'wait_for_jobs') await this.tick(pending);
      answer = await pending;
    } catch (error) {
      assert.notEqual(errorBody(error).code, 'internal', `${where}: ${String(error)}`);
      this.look(errorBody(error), by, `the error of ${where}`);
      return undefined;
    }
    this.look(answer, by, where);
    if (operation.brief) this.look(operation.brief.of(answer, {}), by, `${where}, brief`);
    const text = operation.text?.(answer);
    this.look(text, by, `${where}, text`);
    for (const cli of commandsOf(operation))
      for (const columns of [undefined, 80]) {
        let printed = '';
        const out = (some: string) => void (printed += some);
        const now = () => world.clock.now();
        const screen = { out, err: out, columns, colour: false, now };
        const { title, description, effect } = operation;
        const entry = { name, title, description, effect, cli, input: {}, streams: false };
        printOutput(screen, entry, answer, { text, shown: cli.text?.(answer) });
        this.look(printed, by, `${where}, printed`);
      }
    return answer;
  }

  private async tick(pending: Promise<unknown>): Promise<void> {
    let isOver = false;
    const end = () => (isOver = true);
    void pending.then(end, end);
    while (!isOver) {
      await nextTurn();
      await this.world.clock.advance(0);
    }
  }

  look(value: unknown, by: string, where: string): void {
    for (const [path, text] of stringsOf(value)) {
      assert.doesNotMatch(text, controls, `${where}${path}: ${JSON.stringify(text)}`);
      assert.deepEqual(unmarked(text, by), [], `${where}${path}: ${text}`);
    }
  }
}

function stringsOf(value: unknown, path = ''): [string, string][] {
  if (typeof value === 'string') return [[path, value]];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [
    [`${path}.(name)`, name] satisfies [string, string],
    ...stringsOf(inner, `${path}.${name}`),
  ]);
}

/** Reads everything as everybody, and tries calls that are refused at this point. */
async function readAll(history: History, id: string, payment?: string): Promise<void> {
  const { agents } = history;
  const wallet = agents.client.wallet;
  for (const by of history.readers) {
    const everything = { includeInput: true, includeAttempts: true, includeResult: true };
    await history.call(by, 'get_job', { id, ...everything, details: true });
    await history.call(by, 'list_events', { id });
    await history.call(by, 'wait_for_jobs', { ids: [id], waitMs: 0 });
    await history.call(by, 'read_work', { id });
    await history.call(by, 'list_postings', { id });
    await history.call(by, 'get_reputation', { wallet });
    if (payment !== undefined) await history.call(by, 'get_payment', { id: payment });
    if (by === 'nobody') continue;
    await history.call(by, 'list_jobs', {});
    await history.call(by, 'list_jobs', { text: 'IGNORE' });
    for (const role of ['client', 'provider', 'evaluator', 'arbiter'])
      await history.call(by, 'list_work', { role });
    for (const name of ['list_payments', 'get_wallet', 'list_webhooks'])
      await history.call(by, name, {});
    for (const name of ['cancel_job', 'retry_job', 'rerun_job'])
      await history.call(by, name, { id });
  }
  for (const name of ['fund_work', 'refund_work', 'decline_work'])
    await history.call('stranger', name, { id });
  await history.call('stranger', 'counter_work', { id, budget: '1' });
  await history.call('arbiter', 'submit_work', { id, content: 'x' });
  await history.call('stranger', 'evaluate_work', { id, verdict: 'approve', reason: 'x' });
  await history.call('stranger', 'dispute_work', { id, reason: 'x' });
}

/** Operations whose results contain no party's text; two of them need an operator. */
async function readTheRest(history: History, id: string, hook: string): Promise<void> {
  const { agents } = history;
  await history.call('admin', 'pin_job', { id });
  await history.call('admin', 'verify_escrow', {});
  await history.call('admin', 'get_escrow_health', {});
  await history.call('admin', 'pause_escrow', { paused: false });
  await history.call('stranger', 'create_wallet', { name: 'x' });
  await history.call('admin', 'update_wallet', { wallet: agents.judge.wallet, frozen: false });
  await history.call('stranger', 'charge_x402', { resource: 'a', price: '1', payment: 'x' });
  const { deliveries } = await history.done('provider', 'list_deliveries', { id: hook });
  await history.done('provider', 'replay_delivery', { id: deliveries[0].id });
  await history.done('provider', 'delete_webhook', { id: hook });
}

for (const factory of stores) {
  test(`${factory.name}: every operation and webhook marks text of other parties`, async (t) => {
    const pages: Record<string, () => { status: number; body: string }> = {};
    const world = await createWorld(t, {
      factory,
      deps: {
        fetch: async (url) => {
          const { status, body } = pages[new URL(url).pathname]!();
          const headers = { 'content-type': hostile('type', 'shop') };
          return { status, headers, body: Buffer.from(body) };
        },
      },
    });
    const agents = Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, await world.agent(name, '10.00')])),
    ) as Record<Name, Agent>;
    // One store is enough: the reader makes no difference to it.
    const readers = factory.name === 'sqlite' ? allReaders : (['provider', 'nobody'] as const);
    const history = new History(world, agents, readers);
    await world.webhooks.start();
    t.after(() => world.webhooks.stop());
    for (const name of names) {
      const wallet = agents[name].wallet;
      await history.done(name, 'set_wallet_webhook', { wallet, url: `https://x.test/${name}` });
    }
    const { client, provider } = agents;
    const terms = {
      title: hostile('title', 'client'),
      description: hostile('description', 'client'),
      tags: [hostile('tag', 'client').slice(0, 60)],
      rule: { type: 'manual', wallet: agents.judge.wallet },
      milestones: [
        { title: hostile('first', 'client'), amount: '400000' },
        { title: hostile('second', 'client'), amount: '600000' },
      ],
      dispute: { arbiter: agents.arbiter.wallet, windowMs: 1000 },
    };
    const hire = (more: object) =>
      history.done('client', 'post_work', {
        ...{ provider: provider.wallet, budget: '1000000' },
        ...{ title: 'x', description: 'x', ...more },
      });
    const { id } = await hire({ ...terms, idempotencyKey: 'main' });
    const every = { url: 'https://x.test/job', events: ['*'], jobId: id };
    const { id: hook } = await history.done('provider', 'create_webhook', every);
    await history.done('client', 'fund_work', { id });
    await readAll(history, id);
    const binary = { id, content: hostile('content', 'provider') };
    assert.equal(await history.call('provider', 'submit_work', binary), undefined);
    const [uri, content] = [`https://x.test/${binary.content}`, binary.content].map((text) =>
      text.replace('\0', ''),
    );
    await history.done('provider', 'submit_work', { id, content, uri });
    await readAll(history, id);
    const verdict = {
      ...{ id, verdict: 'reject', reason: hostile('reason', 'judge') },
      checks: [
        {
          ...{ criterion: hostile('criterion', 'judge'), met: false },
          evidence: hostile('evidence', 'judge'),
        },
      ],
    };
    await history.done('judge', 'evaluate_work', verdict);
    await readAll(history, id);
    await history.done('provider', 'dispute_work', { id, reason: hostile('no', 'provider') });
    await readAll(history, id);
    const resolution = { id, reason: hostile('so be it', 'arbiter'), resolution: 'refund' };
    await history.done('arbiter', 'dispute_work', resolution);
    const pay = { to: provider.wallet, amount: '1', memo: hostile('memo', 'client') };
    const payment = await history.done('client', 'send_payment', pay);
    await readAll(history, id, payment.id);
    const end = await world.call(undefined, 'get_job', { id });
    assert.equal(end.stage, 'rejected');

    const declined = await hire({ ...terms, milestones: [], idempotencyKey: 'declined' });
    await history.done('provider', 'counter_work', { id: declined.id, budget: '2000000' });
    const fault = hostile('decline', 'provider');
    await readAll(history, declined.id);
    await history.done('provider', 'decline_work', { id: declined.id, reason: fault });
    await candidatesOf(history, terms.title);
    await readAll(history, declined.id);

    await rulesOf(history, pages);
    await shopOf(history, pages);
    const claim = await history.done('stranger', 'open_wallet', {
      name: hostile('w', 'stranger').replace('\0', ''),
    });
    await history.done('admin', 'claim_wallet', { claimKey: claim.claimKey });
    await history.done('admin', 'get_wallet', {});
    const named = hostile('wallet', 'stranger');
    const { id: wallet } = await world.services.wallets.create('stranger', cleanLine(named));
    for (const [name, more] of [
      ['get_wallet', {}],
      ['update_wallet', { frozen: false, rotateKey: true }],
      ['mint_credit', { amount: '1', transferId: 'x' }],
    ] as const)
      await history.done('admin', name, { wallet, ...more });
    const keys = await world.services.access.list({ subject: `wallet:${wallet}` });
    history.look(keys, 'admin', 'the keys of the wallet');
    await until('the webhooks are sent', () => world.sent.length >= 20);
    for (const { url, body } of world.sent)
      for (const [path, text] of stringsOf(JSON.parse(body))) {
        assert.doesNotMatch(text, controls, `${url}${path}`);
        assert.deepEqual(unmarked(text, 'nobody'), [], `${url}${path}: ${text}`);
      }
    await readTheRest(history, id, hook);
    await history.done('admin', 'mint_credit', {
      ...{ wallet: client.wallet, amount: '1', transferId: 'x' },
    });
    const all = world.operations.list().map(({ name }) => name);
    assert.deepEqual(
      all.filter((name) => !history.called.has(name)),
      [],
      'every operation was called',
    );
  });
}

/** Two jobs have this name: the error lists both with their names, next to the text that the caller typed. */
async function candidatesOf(history: History, title: string): Promise<void> {
  const { world } = history;
  await assert.rejects(world.call(world.admin, 'get_job', { id: cleanLine(title) }), (error) => {
    const { hint, data } = errorBody(error);
    assert.match(String(hint), /job_.*job_/);
    history.look({ hint, data }, 'admin', 'an ambiguous name');
    return true;
  });
}

/** Rule verdicts contain the client's terms and the provider's delivery. */
async function rulesOf(history: History, pages: Record<string, () => object>): Promise<void> {
  const { world, agents } = history;
  const judged = async (rule: object, delivery: object) => {
    const more = { rule, fund: true, repeat: true };
    const { id } = await posted(world, agents.client, agents.provider, more);
    await history.done('provider', 'submit_work', { id, ...delivery });
    await world.services.sweeper.turn();
    await readAll(history, id);
    return id;
  };
  const text = hostile('field', 'provider').replace('\0', '');
  const schema = { type: 'object', additionalProperties: false };
  await judged({ type: 'json_schema', schema }, { content: JSON.stringify({ [text]: 1 }) });
  pages['/check'] = () => ({ status: 200, body: '{}' });
  const jsonMatch = { [hostile('field', 'client')]: 1 };
  const rule = { type: 'http_check', url: 'https://x.test/check', jsonMatch };
  await judged(rule, { content: 'x' });
  pages['/away'] = () => {
    throw new Error(`https://x.test/?${hostile('redirect', 'provider')} could not be fetched`);
  };
  const contentHash = `sha256:${'0'.repeat(64)}`;
  const away = { uri: 'https://x.test/away', contentHash };
  const id = await judged({ type: 'json_schema', schema }, away);
  world.clock.jump(100 * 86_400_000);
  await world.services.sweeper.turn();
  await readAll(history, id);
  await judged({ type: 'http_check', url: 'https://x.test/away' }, { content: 'x' });
}

/** A shop that requires payment can send any text. */
async function shopOf(history: History, pages: Record<string, () => object>): Promise<void> {
  const offer = { scheme: 'exact', network: 'errand:ledger', maxAmountRequired: '10' };
  const asked = [
    { ...offer, payTo: hostile('to', 'shop') },
    { ...offer, payTo: history.agents.provider.wallet, maxAmountRequired: hostile('1', 'shop') },
    { ...offer, payTo: history.agents.provider.wallet, resource: hostile('what', 'shop') },
    { ...offer, network: hostile('net', 'shop') },
  ];
  for (const one of asked) {
    pages['/shop'] = () => ({ status: 402, body: JSON.stringify({ accepts: [one] }) });
    await history.call('client', 'pay_x402', { url: 'https://x.test/shop', maxAmount: '1' });
  }
  await history.call('client', 'list_payments', {});
  await history.call('provider', 'list_payments', {});
}
