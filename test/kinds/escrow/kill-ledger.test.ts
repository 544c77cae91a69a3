// SIGKILL inside every transition of the ledger, at chosen statements of its transaction: each has happened whole or not at
// all, and the same call again makes it happen once. The deep run dies at every statement of every transition.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test, type TestContext } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { onPostgres, startServer, type TestServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { deathEnv, type Death } from './mortal.ts';

type Json = ReturnType<typeof JSON.parse>;

const deep = process.env.ERRAND_TEST_DEEP === '1';

/** Where it dies while all transitions are under way: nothing written, half of the money, all of it, all but the answer. */
const points: Death[] = [
  { sql: 'UPDATE escrow_work', nth: 1, when: 'before' },
  { sql: 'INSERT INTO escrow_entries', nth: 3, when: 'after' },
  { sql: 'COMMIT', nth: 1, when: 'before' },
  { sql: 'COMMIT', nth: 1, when: 'after' },
];
const preload = pathToFileURL(join(import.meta.dirname, 'mortal.ts')).href;

/** A job brought to the stage before, the call under test, the stages before and after it. */
interface Transition {
  name: string;
  terms?: Record<string, unknown>;
  prepare: string[];
  act: string;
  from: string;
  to: string;
}

/** One for each effect of the stage machine. */
function transitions(judge: string, arbiter: string): Transition[] {
  const open: Omit<Transition, 'name' | 'act' | 'to'> = { prepare: [], from: 'open' };
  const funded = { prepare: ['fund'], from: 'funded' };
  const submitted = { prepare: ['fund', 'submit'], from: 'submitted' };
  const rule = { type: 'manual', wallet: judge };
  const judged = { rule, dispute: { arbiter, windowMs: 1000 } };
  const disputed = { prepare: ['fund', 'submit', 'dispute'], from: 'disputed' };
  const terms = { dispute: { arbiter } };
  const hurried = { dispute: { arbiter, resolveMs: 1000, silence: 'refund' } };
  const milestones = [
    { title: 'first', amount: '400000' },
    { title: 'second', amount: '600000' },
  ];
  const brief = { brief: 1000 };
  const decided = { prepare: ['fund', 'submit', 'verdict'], from: 'submitted' };
  return [
    { name: 'offer', ...open, act: 'counter', to: 'open' },
    { name: 'hold', ...open, act: 'fund', to: 'funded' },
    { name: 'withdraw', ...open, act: 'cancel', to: 'rejected' },
    { name: 'lapse', ...open, terms: brief, act: 'refund', to: 'expired' },
    { name: 'return', ...funded, act: 'decline', to: 'rejected' },
    { name: 'deliver', ...funded, act: 'submit', to: 'submitted' },
    { name: 'expire', ...funded, terms: brief, act: 'refund', to: 'expired' },
    { name: 'release', ...submitted, act: 'approve', to: 'completed' },
    { name: 'verdictApprove', ...submitted, terms: { rule }, act: 'verdict', to: 'completed' },
    { name: 'verdictReject', ...submitted, act: 'reject', to: 'rejected' },
    { name: 'milestone', ...submitted, terms: { milestones }, act: 'approve', to: 'funded' },
    { name: 'openDispute', ...submitted, terms, act: 'dispute', to: 'disputed' },
    {
      name: 'silence',
      ...submitted,
      terms: { ...brief, silence: 'refund' },
      act: 'refund',
      to: 'expired',
    },
    { name: 'verdictStands', ...decided, terms: judged, act: 'refund', to: 'completed' },
    { name: 'resolution', ...disputed, terms, act: 'resolve', to: 'completed' },
    { name: 'disputeSilence', ...disputed, terms: hurried, act: 'refund', to: 'expired' },
  ];
}

/** What the provider gets in one round: three full payments, half of one, a milestone, a payment, a mint. */
const earned = 3 * 930_000 + 465_000 + 372_000 + 500_000 + 1_000_000;

test('kill -9 in every transition of the ledger: whole or not at all, and once', async (t) => {
  const bank = await openMortalBank(t);
  const { call, act } = bank;
  const all = transitions(bank.judge, bank.arbiter);
  const rounds = onPostgres ? [points[1]!, points[3]!] : points;
  for (const [round, point] of rounds.entries()) {
    const jobs = await Promise.all(all.map((one) => bank.prepared(one, `${one.name} ${round}`)));
    await Promise.all(jobs.map(bank.due));
    const { client, provider } = bank;
    const once = { wallet: client, to: provider, amount: '0.50', idempotencyKey: `pay ${round}` };
    const mint = { wallet: provider, amount: '1', transferId: `mint ${round}` };
    const everything = () => [
      ...jobs.map((one) => act(one.id, one.act)),
      bank.post(`posted ${round}`),
      call('POST', '/api/payments', once),
      call('POST', '/api/escrow/mint', mint),
    ];
    assert.ok(await bank.dies(point, everything), JSON.stringify(point));
    for (const one of jobs) {
      const stage = await bank.stageOf(one.id);
      assert.ok([one.from, one.to].includes(stage), `${one.name}: ${stage}`);
    }
    // The callers never got an answer and ask again.
    await Promise.all(everything());
    for (const one of jobs) assert.equal(await bank.stageOf(one.id), one.to, one.name);
    for (const { id } of jobs.filter(({ name }) => name === 'milestone')) await act(id, 'decline');
  }
  const { wallets } = await call('GET', '/api/wallets');
  const provider = wallets.find((one: Json) => one.id === bank.provider);
  assert.equal(Number(provider.balanceMicro), rounds.length * earned);
  const books = await call('GET', '/api/escrow/verify');
  assert.deepEqual(books.problems, []);
  // The funded, the submitted and the disputed one of each round.
  assert.equal(books.escrowed, String(rounds.length * 3_000_000));
});

if (deep) {
  test('kill -9 at every statement of every transition of the ledger', async (t) => {
    const bank = await openMortalBank(t);
    for (const one of transitions(bank.judge, bank.arbiter)) {
      const diedAt: string[] = [];
      const isCommit = (sql: string) => sql === 'COMMIT';
      let tries = 0;
      for (let nth = 1, misses = 0; misses < 5; nth++) {
        const job = await bank.prepared(one, `${one.name}, try ${tries++}`);
        await bank.due(job);
        const point: Death = { sql: '', nth, when: 'before' };
        const died = await bank.dies(point, () => [bank.act(job.id, one.act)]);
        if (died) diedAt.push(bank.lastWord());
        else if (diedAt.some(isCommit)) break;
        // Something else shared a transaction with it and all places moved: back to the end of it.
        else [nth, misses] = [nth - 2, misses + 1];
        const stage = await bank.stageOf(job.id);
        assert.ok([one.from, one.to].includes(stage), `${one.name} at ${nth}: ${stage}`);
        await bank.act(job.id, one.act);
        assert.equal(await bank.stageOf(job.id), one.to, `${one.name} at ${nth}`);
      }
      for (const needed of ['UPDATE jobs', 'UPDATE escrow_work', 'INSERT INTO events', 'COMMIT']) {
        assert.ok(
          diedAt.some((sql) => sql.startsWith(needed)),
          `${one.name}: ${needed} of ${diedAt.join(' | ')}`,
        );
      }
      t.diagnostic(`${one.name}: died at ${diedAt.length} statements`);
    }
  });
}

/** A server that dies where it is told to, and what the test does with it. */
async function openMortalBank(t: TestContext) {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  // The sweep would refund what is overdue before the test can.
  const settings = { expiryMsMin: 1, sweepMs: 3_600_000 };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ escrow: settings }));
  const wish = join(home, 'death.json');
  const env = { NODE_OPTIONS: `--import=${preload}`, [deathEnv]: wish };
  let server: TestServer = await startServer(t, { home, env });
  const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await server.api(method, path, body);
    if (answer.status >= 400) throw new Error(`${path}: ${answer.text}`);
    return answer.json();
  };
  const wallet = async (name: string): Promise<string> =>
    (await call('POST', '/api/wallets', { name })).id;
  const [client, provider] = [await wallet('client'), await wallet('provider')];
  const [judge, arbiter] = [await wallet('judge'), await wallet('arbiter')];
  await call('POST', '/api/escrow/mint', { wallet: client, amount: '10000', transferId: 'start' });
  const post = (key: string, { brief, ...terms }: Record<string, unknown> = {}) =>
    call('POST', '/api/work', {
      ...{ wallet: client, provider, budget: '1000000', title: key, description: 'x' },
      ...{ idempotencyKey: key, repeat: true },
      ...(brief
        ? { expiresAt: new Date(Date.now() + Number(brief)).toISOString(), evaluationMs: 1 }
        : {}),
      ...terms,
    });
  const bodies: Record<string, [string, object]> = {
    counter: ['counter', { wallet: provider, budget: '1200000' }],
    fund: ['fund', { wallet: client }],
    cancel: ['decline', { wallet: client }],
    decline: ['decline', { wallet: provider }],
    submit: ['submit', { wallet: provider, content: 'done' }],
    approve: ['evaluate', { wallet: client, verdict: 'approve', reason: 'ok' }],
    reject: ['evaluate', { wallet: client, verdict: 'reject', reason: 'no' }],
    verdict: ['evaluate', { wallet: judge, verdict: 'approve', reason: 'ok' }],
    dispute: ['dispute', { wallet: client, reason: 'not what I asked for' }],
    resolve: ['dispute', { wallet: arbiter, reason: 'half', resolution: 'split', splitBps: 5000 }],
    refund: ['refund', { wallet: client }],
  };
  const act = (id: string, name: string) => {
    const [path, body] = bodies[name]!;
    return call('POST', `/api/work/${id}/${path}`, body);
  };
  const prepared = async (
    transition: Transition,
    key: string,
  ): Promise<Transition & { id: string }> => {
    const { terms } = transition;
    try {
      const { id } = await post(key, terms);
      for (const step of transition.prepare) await act(id, step);
      return { ...transition, id };
    } catch (error) {
      if (!terms?.brief || !/deadlinePassed|jobFinal|expiryTooShort/.test(String(error)))
        throw error;
      // This machine is slower than the job is long: once more, with more time.
      const longer = { ...terms, brief: 3 * Number(terms.brief) };
      return prepared({ ...transition, terms: longer }, `${key}, longer`);
    }
  };
  return {
    ...{ client, provider, judge, arbiter, call, post, act },
    stageOf: async (id: string) => (await call('GET', `/api/jobs/${id}`)).stage as string,
    prepared,
    /** Waits for the deadline of those that are to be concluded. */
    due: async ({ id, act: name }: Transition & { id: string }) => {
      if (name !== 'refund') return;
      const { deadline } = await call('GET', `/api/jobs/${id}`);
      // None: a sweep was faster, and it is concluded already.
      if (deadline) await until('it is overdue', () => Date.parse(deadline) < Date.now());
    },
    /** Does all of it at once on a server that dies at the point; false when it never came there. */
    dies: async (point: Death, calls: () => Promise<unknown>[]): Promise<boolean> => {
      rmSync(`${wish}.done`, { force: true });
      writeFileSync(wish, JSON.stringify(point));
      await Promise.allSettled(calls());
      rmSync(wish);
      const died = existsSync(`${wish}.done`);
      await server.kill();
      server = await startServer(t, { home, env });
      assert.deepEqual((await call('GET', '/api/escrow/verify')).problems, []);
      return died;
    },
    lastWord: () => readFileSync(`${wish}.done`, 'utf8').trim(),
  };
}
