// Contract and stage machine are the same table: every function by every actor in every status, one second before a
// deadline, at it and one second after it, does what the machine allows or reverts with the matching error.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeErrorResult, decodeFunctionResult, encodeFunctionData, type Hex } from 'viem';
import {
  finalPhases,
  judge,
  type Action,
  type Phase,
  type RefusalCode,
  type Role,
} from '../../../../../src/kinds/escrow/stage.ts';
import { contracts, operatorAddress, startAnvil, type Anvil } from './anvil.ts';

type Actor = 'client' | 'provider' | 'evaluator' | 'other';

const address = (n: number): Hex => `0x${String(n).padStart(40, '0')}`;
const actors: Record<Actor, Hex> = {
  client: address(101),
  provider: address(102),
  evaluator: address(103),
  other: address(104),
};
const nobody = address(0);
const budget = 1_000_000n;
const [lifeSeconds, evaluationSeconds] = [1000, 5000];
const some: Hex = `0x${'11'.repeat(32)}`;

/** A contract function is one action, or one of several that the actor may take. */
const functions: [name: string, args: unknown[], actions: Action[]][] = [
  ['fund', [budget, '0x'], ['fund']],
  ['submit', [some, '0x'], ['submit']],
  ['complete', [some, '0x'], ['approve']],
  ['reject', [some, '0x'], ['cancel', 'decline', 'reject']],
  ['claimRefund', [], ['conclude']],
  ['claimRelease', [], ['conclude']],
];

/** What silence after a delivery does; the contract's `enum Silence`. */
const silences = { release: 0, refund: 1 } as const;
type Silence = keyof typeof silences;

interface StagedJob {
  phase: Phase;
  silence: Silence;
  id: bigint;
  deadline: number;
}

const reverts: Record<RefusalCode, string> = {
  jobFinal: 'WrongStatus',
  wrongStage: 'WrongStatus',
  notClient: 'Unauthorized',
  notProvider: 'Unauthorized',
  notEvaluator: 'Unauthorized',
  notArbiter: 'Unauthorized',
  notParty: 'Unauthorized',
  deadlinePassed: 'DeadlinePassed',
  notYetExpired: 'NotYetExpired',
  evaluationPending: 'GracePeriodActive',
  escrowPaused: 'Paused',
};

/** The result that the machine predicts for the contract. */
function expected(
  { phase, silence }: StagedJob,
  [name, , actions]: (typeof functions)[number],
  actor: Actor,
  after: boolean,
  paused: boolean,
) {
  const held = new Set<Role>([actor, 'other']);
  // The one difference: the machine reports it as late, while the chain does what a refund would do now.
  const late = phase === 'submitted' && after && actor === 'evaluator';
  if (late && actions.includes('reject') && silence === 'refund') return 'done';
  // The machine has one action for the end of silence, the contract one function for each result.
  if (name === 'claimRelease' && phase !== 'submitted') return 'WrongStatus';
  if (phase === 'submitted' && after) {
    if (name === 'claimRelease' && silence === 'refund') return 'SilenceRefunds';
    if (name === 'claimRefund' && silence === 'release') return 'SilenceReleases';
  }
  const answers = actions.map((action) =>
    judge({ phase, action }, held, after ? 'after' : 'before', paused),
  );
  if (answers.some((answer) => 'effect' in answer)) return 'done';
  const codes = answers.flatMap((answer) => ('refused' in answer ? [answer.refused] : []));
  // Among several actions under one name, one that this actor could take at another time has priority; actions unknown to
  // this status come last.
  const telling =
    codes.find((code) => code === 'deadlinePassed') ??
    codes.find((code) => code !== 'wrongStage') ??
    'wrongStage';
  return reverts[telling];
}

async function stagedContract(t: Parameters<typeof startAnvil>[0]) {
  const anvil = await startAnvil(t, 1_800_000_000);
  const token = await anvil.deploy(contracts.token);
  const escrow = await anvil.deploy(contracts.escrow, [
    ...[operatorAddress, 200, 500],
    ...[60n, BigInt(evaluationSeconds)],
  ]);
  const now = async () =>
    Number(
      (await anvil.rpc<{ timestamp: Hex }>('eth_getBlockByNumber', ['latest', false])).timestamp,
    );
  const send = async (from: Hex, name: string, args: unknown[]) =>
    assert.ok(await anvil.send(from, escrow, contracts.escrow, name, args), name);
  for (const [name, args] of [
    ['mint', [actors.client, budget * 100n]],
    ['approve', [escrow, budget * 100n]],
  ] as const) {
    assert.ok(await anvil.send(actors.client, token, contracts.token, name, [...args]));
  }
  const expiredAt = (await now()) + lifeSeconds;
  const { client, provider, evaluator } = actors;
  const paths: Partial<Record<Phase, [Hex, string, unknown[]][]>> = {
    open: [],
    funded: [[client, 'fund', [budget, '0x']]],
    submitted: [
      [client, 'fund', [budget, '0x']],
      [provider, 'submit', [some, '0x']],
    ],
    completed: [
      [client, 'fund', [budget, '0x']],
      [provider, 'submit', [some, '0x']],
      [evaluator, 'complete', [some, '0x']],
    ],
    rejected: [[client, 'reject', [some, '0x']]],
  };
  const jobs: StagedJob[] = [];
  const staged = Object.entries(paths).flatMap(([phase, path]) =>
    (['release', 'refund'] as const).map((silence) => ({ phase: phase as Phase, silence, path })),
  );
  for (const { phase, silence, path } of staged) {
    const id = BigInt(jobs.length + 1);
    const request = [provider, evaluator, BigInt(expiredAt), 'x', nobody, 0n];
    const terms = { silence: silences[silence], platformFeeBP: 200n, evaluatorFeeBP: 500n };
    if (silence === 'release') await send(client, 'createJob', request);
    else await send(client, 'createJobWithTerms', [...request, terms]);
    await send(client, 'setBudget', [id, token, budget, '0x']);
    let deadline = expiredAt;
    for (const [from, name, args] of path) {
      await send(from, name, [id, ...args]);
      if (name === 'submit') deadline = (await now()) + evaluationSeconds;
    }
    jobs.push({ phase, silence, id, deadline });
  }
  /** Simulates a call at a given chain time. */
  const tried = async (from: Hex, name: string, args: unknown[], time: number) => {
    const { abi } = contracts.escrow;
    const call = { from, to: escrow, data: encodeFunctionData({ abi, functionName: name, args }) };
    const at = { time: `0x${time.toString(16)}` };
    const { error } = (await anvil.raw('eth_call', [call, 'latest', {}, at])) as {
      error?: { message: string; data?: Hex };
    };
    if (!error) return 'done';
    assert.ok(error.data, `${name}: ${error.message}`);
    return decodeErrorResult({ abi, data: error.data }).errorName;
  };
  return { jobs, tried, send, expiredAt, token, anvil, escrow };
}

test('every contract function, actor, status and moment matches the stage machine', async (t) => {
  const { jobs, tried, send } = await stagedContract(t);
  let refused = 0;
  const check = async (job: StagedJob, time: number, after: boolean, paused: boolean) => {
    for (const [name, args, actions] of functions) {
      for (const [actor, from] of Object.entries(actors) as [Actor, Hex][]) {
        const wanted = expected(job, [name, args, actions], actor, after, paused);
        const found = await tried(from, name, [job.id, ...args], time);
        const what = `${name} by ${actor}, ${job.phase}, silence: ${job.silence}, ${
          time - job.deadline
        } s, paused: ${paused}`;
        // A pause is checked first: every function that it stops reports it to every caller.
        if (paused && found === 'Paused') assert.notEqual(wanted, 'done', what);
        else assert.equal(found, wanted, what);
        if (found !== 'done') refused += 1;
      }
    }
  };
  for (const job of jobs) {
    for (const seconds of [-1, 0, 1]) {
      await check(job, job.deadline + seconds, seconds >= 0, false);
    }
  }
  await send(operatorAddress as Hex, 'setPaused', [true]);
  for (const job of jobs) {
    // A pause stops only the evaluation window, for at most 30 days, and no other deadline.
    const stoppedSeconds = job.phase === 'submitted' ? 30 * 86_400 : 0;
    for (const seconds of [-1, 0, 1]) {
      const isOver = stoppedSeconds === 0 && seconds >= 0;
      await check(job, job.deadline + seconds, isOver, true);
      if (stoppedSeconds > 0)
        await check(job, job.deadline + stoppedSeconds + seconds, seconds >= 0, true);
    }
  }
  assert.ok(refused > 400, `${refused} refusals`);
  assert.ok(jobs.some(({ phase }) => finalPhases.has(phase)));
});

test('the contract refuses one party in two roles, invalid budgets and an expiry that is too near', async (t) => {
  const { tried, expiredAt, token } = await stagedContract(t);
  const { client, provider, evaluator } = actors;
  const start = expiredAt - lifeSeconds;
  const create = (more: { provider?: Hex; evaluator?: Hex; expiredAt?: number; hook?: Hex }) => {
    const request = { provider, evaluator, expiredAt, hook: nobody, ...more };
    const { provider: who, evaluator: judgeOf, expiredAt: end, hook } = request;
    return tried(client, 'createJob', [who, judgeOf, BigInt(end), 'x', hook, 0n], start);
  };
  assert.equal(await create({}), 'done');
  assert.equal(await create({ evaluator: client }), 'done', 'a client may evaluate its own job');
  assert.equal(await create({ provider: client }), 'ProviderCannotBeClient');
  assert.equal(await create({ evaluator: provider }), 'ProviderCannotBeEvaluator');
  assert.equal(await create({ evaluator: nobody }), 'ZeroAddress');
  assert.equal(await create({ hook: client }), 'HookNotWhitelisted');
  assert.equal(await create({ expiredAt: start + 60 }), 'done');
  assert.equal(await create({ expiredAt: start + 59 }), 'ExpiryTooShort');
  const year = 366 * 86_400;
  assert.equal(await create({ expiredAt: start + year }), 'done');
  assert.equal(await create({ expiredAt: start + year + 1 }), 'ExpiryTooLong');
  const open = 1n;
  const set = (from: Hex, amount: bigint, of: Hex = token) =>
    tried(from, 'setBudget', [open, of, amount, '0x'], start);
  assert.equal(await set(client, 0n), 'ZeroBudget');
  assert.equal(await set(provider, 2n), 'done');
  assert.equal(await set(provider, 2n, client), 'Unauthorized', 'only the client names the token');
  assert.equal(await set(client, 2n, evaluator), 'TokenAlreadySet', 'the token is set once');
  assert.equal(await set(actors.other, 2n), 'Unauthorized');
  const blind = await tried(client, 'fund', [open, budget - 1n, '0x'], start);
  assert.equal(blind, 'BudgetMismatch');
});

test('a token that keeps part of each transfer is refused: each job holds its full budget', async (t) => {
  const { anvil, token, jobs, tried, send, expiredAt } = await stagedContract(t);
  const open = 1n;
  const start = expiredAt - lifeSeconds;
  const fund = () => tried(actors.client, 'fund', [open, budget, '0x'], start);
  const keep = (bps: bigint) => anvil.send(actors.client, token, contracts.token, 'keep', [bps]);
  assert.ok(await keep(1n));
  assert.equal(await fund(), 'UnexpectedFundedAmount');
  assert.ok(await keep(0n));
  assert.equal(await fund(), 'done');
  const request = [actors.provider, actors.evaluator, BigInt(expiredAt), 'x', nobody, 0n];
  await send(actors.client, 'createJob', request);
  const last = BigInt(jobs.length + 1);
  await send(actors.client, 'setBudget', [last, actors.other, budget, '0x']);
  const without = await tried(actors.client, 'fund', [last, budget, '0x'], start);
  assert.equal(without, 'TransferFailed', 'an address without a contract is not a token');
});

test("the provider's agent id is stored and emitted, at creation or later", async (t) => {
  const { anvil, escrow, send, expiredAt } = await stagedContract(t);
  const { client, provider, evaluator } = actors;
  const count = async () =>
    BigInt(
      await read<Hex>(
        anvil,
        escrow,
        encodeFunctionData({ ...contracts.escrow, functionName: 'jobCounter' }),
      ),
    );
  const agentOf = async (id: bigint) => {
    const { abi } = contracts.escrow;
    const data = encodeFunctionData({ abi, functionName: 'getJob', args: [id] });
    const answer = await read<Hex>(anvil, escrow, data);
    const job = decodeFunctionResult({ abi, functionName: 'getJob', data: answer });
    return (job as { providerAgentId: bigint }).providerAgentId;
  };
  const create = async (who: Hex, agent: bigint) => {
    await send(client, 'createJob', [who, evaluator, BigInt(expiredAt), 'x', nobody, agent]);
    return count();
  };
  assert.equal(await agentOf(await create(provider, 7n)), 7n);
  const later = await create(nobody, 7n);
  assert.equal(await agentOf(later), 0n, 'an unset provider has no id');
  await send(client, 'setProvider', [later, provider, 8n]);
  assert.equal(await agentOf(later), 8n);
});

const read = <T>(anvil: Anvil, to: Hex, data: Hex): Promise<T> =>
  anvil.rpc<T>('eth_call', [{ to, data }, 'latest']);
