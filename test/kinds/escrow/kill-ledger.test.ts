// SIGKILL inside every ledger transition, at chosen statements of its transaction: each is applied completely or not at all,
// and repeating the call applies it once. The deep run kills at every statement of every transition.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test, type TestContext } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { onPostgres, startServer, type TestServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { killPointEnv, type KillPoint } from './kill-point.ts';

type Json = ReturnType<typeof JSON.parse>;

const deep = process.env.ERRAND_TEST_DEEP === '1';

/** Kill points while all transitions are in progress: nothing written, half the money, all of it, all but the response. */
const points: KillPoint[] = [
  { sql: 'UPDATE escrow_work', nth: 1, when: 'before' },
  { sql: 'INSERT INTO escrow_entries', nth: 3, when: 'after' },
  { sql: 'COMMIT', nth: 1, when: 'before' },
  { sql: 'COMMIT', nth: 1, when: 'after' },
];
const preload = pathToFileURL(join(import.meta.dirname, 'kill-point.ts')).href;

/** A job in the stage before, the call under test, and the stages before and after it. */
interface Transition {
  name: string;
  terms?: Record<string, unknown>;
  prepare: string[];
  act: string;
  from: string;
  to: string;
}

/** One transition for each effect of the stage machine. */
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

/** The provider's income per round: three full payments, half of one, a milestone, a payment, a mint. */
const earned = 3 * 930_000 + 465_000 + 372_000 + 500_000 + 1_000_000;

test('kill -9 in every ledger transition: applied completely or not at all, and once', async (t) => {
  const bank = await openKillableBank(t);
  const { call, act } = bank;
  const all = transitions(bank.judge, bank.arbiter);
  // PostgreSQL applies a transaction as a whole, so one point inside it is enough outside the deep run.
  const rounds = onPostgres && !deep ? [points[1]!] : points;
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
    // The callers got no response and repeat the calls.
    await Promise.all(everything());
    for (const one of jobs) assert.equal(await bank.stageOf(one.id), one.to, one.name);
    for (const { id } of jobs.filter(({ name }) => name === 'milestone')) await act(id, 'decline');
  }
  const { wallets } = await call('GET', '/api/wallets');
  const provider = wallets.find((one: Json) => one.id === bank.provider);
  assert.equal(Number(provider.balanceMicro), rounds.length * earned);
  const books = await call('GET', '/api/escrow/verify');
  assert.deepEqual(books.problems, []);
  // The funded, the submitted and the disputed job of each round.
  assert.equal(books.escrowed, String(rounds.length * 3_000_000));
});

if (deep) {
  test('kill -9 at every statement of every ledger transition', async (t) => {
    const bank = await openKillableBank(t);
    for (const one of transitions(bank.judge, bank.arbiter)) {
      const diedAt: string[] = [];
      const isCommit = (sql: string) => sql === 'COMMIT';
      let tries = 0;
      for (let nth = 1, misses = 0; misses < 5; nth++) {
        const job = await bank.prepared(one, `${one.name}, try ${tries++}`);
        await bank.due(job);
        const point: KillPoint = { sql: '', nth, when: 'before' };
        const died = await bank.dies(point, () => [bank.act(job.id, one.act)]);
        if (died) diedAt.push(bank.lastStatement());
        else if (diedAt.some(isCommit)) break;
        // Another write shared its transaction and shifted the statements: go back to its end.
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

/** A server that dies at a chosen statement, and the calls that the test makes to it. */
async function openKillableBank(t: TestContext) {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  // Disable the sweep: it would refund overdue jobs before the test does.
  const settings = { minExpiryMs: 1, sweepMs: 3_600_000 };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ escrow: settings }));
  const killPointFile = join(home, 'kill-point.json');
  const env = { NODE_OPTIONS: `--import=${preload}`, [killPointEnv]: killPointFile };
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
      // This machine is slower than the job's deadline: try again with more time.
      const longer = { ...terms, brief: 3 * Number(terms.brief) };
      return prepared({ ...transition, terms: longer }, `${key}, longer`);
    }
  };
  return {
    ...{ client, provider, judge, arbiter, call, post, act },
    stageOf: async (id: string) => (await call('GET', `/api/jobs/${id}`)).stage as string,
    prepared,
    /** Waits for the deadline of the jobs to conclude. */
    due: async ({ id, act: name }: Transition & { id: string }) => {
      if (name !== 'refund') return;
      const { deadline } = await call('GET', `/api/jobs/${id}`);
      // No deadline: a sweep was faster and concluded the job already.
      if (deadline) await until('it is overdue', () => Date.parse(deadline) < Date.now());
    },
    /** Runs all calls concurrently on a server that dies at the point; returns false if it never reached it. */
    dies: async (point: KillPoint, calls: () => Promise<unknown>[]): Promise<boolean> => {
      rmSync(`${killPointFile}.done`, { force: true });
      writeFileSync(killPointFile, JSON.stringify(point));
      await Promise.allSettled(calls());
      rmSync(killPointFile);
      const died = existsSync(`${killPointFile}.done`);
      await server.kill();
      server = await startServer(t, { home, env });
      assert.deepEqual((await call('GET', '/api/escrow/verify')).problems, []);
      return died;
    },
    lastStatement: () => readFileSync(`${killPointFile}.done`, 'utf8').trim(),
  };
}
