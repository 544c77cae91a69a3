// Whom the contract pays, and when: a token that fails for one party never stops another party's money, silence after a
// delivery pays, and a pause shortens nobody's time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../../helpers/until.ts';
import { encodeFunctionData, type Hex } from 'viem';
import { contracts } from './anvil.ts';
import { budget, mode, openLab, people, silence, some, windowSeconds, type Lab } from './lab.ts';

const { client, provider, evaluator, treasury, stranger, owner } = people;
const [platformFee, evaluatorFee, pay] = [20_000n, 50_000n, 930_000n];
const daySeconds = 86_400;

/** Checks a token's total: everybody's balances and credits, and nothing else. */
async function sound(lab: Lab): Promise<void> {
  const owed = await lab.read<bigint>('owed', [lab.token]);
  assert.equal(await lab.tokens(lab.escrow), owed, 'the contract holds what it owes');
}

async function withdrawn(lab: Lab, account: Hex): Promise<bigint> {
  const before = await lab.tokens(account);
  assert.ok(await lab.act(stranger, 'withdraw', [lab.token, account]), 'anyone may trigger it');
  assert.equal(await lab.credit(account), 0n);
  assert.equal(await lab.tried(account, 'withdraw', [lab.token, account]), 'NoCredit');
  return (await lab.tokens(account)) - before;
}

for (const blocked of ['treasury', 'evaluator', 'provider'] as const) {
  test(`a token that blocks the ${blocked} does not stop payments to the others`, async (t) => {
    const lab = await openLab(t);
    const id = await lab.job('submitted');
    await lab.hostile('block_', [people[blocked], true]);
    assert.ok(await lab.act(evaluator, 'complete', [id, some, '0x']));
    const shares = { treasury: platformFee, evaluator: evaluatorFee, provider: pay };
    for (const [who, share] of Object.entries(shares)) {
      const account = people[who as keyof typeof shares];
      if (who === blocked) {
        assert.equal(await lab.credit(account), share);
        assert.equal(await lab.tried(stranger, 'withdraw', [lab.token, account]), 'Blocked');
      } else if (who === 'provider') assert.equal(await lab.tokens(account), share, 'sent');
      else assert.equal(await withdrawn(lab, account), share);
    }
    await sound(lab);
    await lab.hostile('block_', [people[blocked], false]);
    assert.equal(await withdrawn(lab, people[blocked]), shares[blocked]);
    assert.equal(await lab.tokens(lab.escrow), 0n);
  });
}

test('a token that blocks the client does not keep its jobs from ending', async (t) => {
  const lab = await openLab(t);
  const [declined, rejected, late] = [
    await lab.job('funded'),
    await lab.job('submitted'),
    await lab.job('funded'),
  ];
  const before = await lab.tokens(client);
  await lab.hostile('block_', [client, true]);
  assert.ok(await lab.act(provider, 'reject', [declined, some, '0x']));
  assert.ok(await lab.act(evaluator, 'reject', [rejected, some, '0x']));
  await lab.anvil.forward(2000);
  assert.ok(await lab.act(stranger, 'claimRefund', [late]));
  assert.equal(await lab.credit(client), 3n * budget);
  await sound(lab);
  await lab.hostile('block_', [client, false]);
  assert.equal(await withdrawn(lab, client), 3n * budget);
  assert.equal(await lab.tokens(client), before + 3n * budget);
});

test('a token that stops, lies, burns gas or returns too much leaves credits, never a stuck job', async (t) => {
  const lab = await openLab(t);
  const { reverts, answersFalse, burnsGas, answersTooMuch, answersNothing, honest } = mode;
  for (const bad of [reverts, answersFalse, burnsGas, answersTooMuch]) {
    const [good, refunded] = [await lab.job('submitted'), await lab.job('funded')];
    const before = [await lab.credit(provider), await lab.credit(client)] as const;
    await lab.hostile('setMode', [bad]);
    assert.ok(await lab.act(evaluator, 'complete', [good, some, '0x']), `mode ${bad}`);
    assert.ok(await lab.act(provider, 'reject', [refunded, some, '0x']), `mode ${bad}`);
    assert.equal((await lab.credit(provider)) - before[0], pay);
    assert.equal((await lab.credit(client)) - before[1], budget);
    assert.equal(await lab.act(stranger, 'withdraw', [lab.token, provider]), false, 'not yet');
    await lab.hostile('setMode', [honest]);
    await sound(lab);
  }
  const quiet = await lab.job('submitted');
  await lab.hostile('setMode', [answersNothing]);
  assert.ok(await lab.act(evaluator, 'complete', [quiet, some, '0x']));
  assert.equal(await lab.tokens(provider), pay, 'a return value is optional');
  assert.equal(await withdrawn(lab, provider), 4n * pay);
  assert.equal(await withdrawn(lab, client), 4n * budget);
  assert.equal(await withdrawn(lab, evaluator), 5n * evaluatorFee);
  assert.equal(await withdrawn(lab, treasury), 5n * platformFee);
  assert.equal(await lab.tokens(lab.escrow), 0n);
});

test('a token that calls back during a transfer achieves nothing', async (t) => {
  const lab = await openLab(t);
  const [paid, first, second, agreed] = [
    await lab.job('submitted'),
    await lab.job('submitted'),
    await lab.job('submitted'),
    await lab.job('submitted', silence.refund),
  ];
  assert.ok(await lab.act(evaluator, 'complete', [paid, some, '0x']), 'leaves credits');
  await lab.anvil.forward(windowSeconds + 1);
  const open = await lab.job('open');
  type Call = [from: Hex, name: string, args: unknown[]];
  const fees: Call = [stranger, 'withdraw', [lab.token, treasury]];
  const cases: { while: Call; callBack: Call }[] = [
    { while: [stranger, 'claimRelease', [first]], callBack: [stranger, 'claimRelease', [second]] },
    { while: [stranger, 'claimRefund', [agreed]], callBack: fees },
    { while: [client, 'fund', [open, budget, '0x']], callBack: fees },
    { while: [stranger, 'withdraw', [lab.token, evaluator]], callBack: fees },
    { while: [provider, 'reject', [second, some, '0x']], callBack: fees },
  ];
  for (const { while: outer, callBack } of cases) {
    const [, functionName, args] = callBack;
    assert.equal(await lab.tried(...callBack), 'done', 'possible on its own');
    const data = encodeFunctionData({ abi: contracts.escrow.abi, functionName, args });
    await lab.hostile('callBack', [lab.escrow, data]);
    assert.ok(await lab.act(...outer), outer[1]);
    await sound(lab);
  }
  const counts = async (functionName: string) => {
    const data = encodeFunctionData({ abi: contracts.hostile.abi, functionName });
    return Number(await lab.anvil.rpc('eth_call', [{ to: lab.token, data }, 'latest']));
  };
  assert.equal(await counts('attempts'), cases.length);
  assert.equal(await counts('breaches'), 0);
});

test('too little gas can revert a settlement but never skip its payment', async (t) => {
  const lab = await openLab(t);
  const id = await lab.job('submitted');
  const { abi } = contracts.escrow;
  const data = encodeFunctionData({ abi, functionName: 'complete', args: [id, some, '0x'] });
  const call = { from: evaluator, to: lab.escrow, data };
  const gas = Number(await lab.anvil.rpc('eth_estimateGas', [call]));
  await lab.anvil.rpc('anvil_impersonateAccount', [evaluator]);
  await lab.anvil.rpc('anvil_setBalance', [evaluator, '0xde0b6b3a7640000']);
  for (let limit = 60_000; limit < gas + 20_000; limit += 10_000) {
    const snapshot = await lab.anvil.rpc('evm_snapshot');
    const hash = await lab.anvil.rpc('eth_sendTransaction', [
      { ...call, gas: `0x${limit.toString(16)}` },
    ]);
    const { status } = await until('it is mined', () =>
      lab.anvil.rpc<{ status: Hex } | null>('eth_getTransactionReceipt', [hash]),
    );
    assert.equal(await lab.credit(provider), 0n, `${limit} gas`);
    assert.equal(await lab.tokens(provider), status === '0x1' ? pay : 0n, `${limit} gas`);
    await lab.anvil.rpc('evm_revert', [snapshot]);
  }
  assert.equal(await lab.tried(evaluator, 'complete', [id, some, '0x']), 'done');
});

test('silence after a delivery pays the provider, and a late rejection fails', async (t) => {
  const lab = await openLab(t);
  const id = await lab.job('submitted');
  const agreed = await lab.job('submitted', silence.refund);
  const before = await lab.tokens(client);
  assert.equal(await lab.tried(stranger, 'claimRelease', [id]), 'GracePeriodActive');
  await lab.anvil.forward(windowSeconds + 1);
  assert.equal(await lab.tried(evaluator, 'reject', [id, some, '0x']), 'DeadlinePassed');
  assert.equal(await lab.tried(client, 'claimRefund', [id]), 'SilenceReleases');
  assert.ok(await lab.act(stranger, 'claimRelease', [id]));
  assert.deepEqual(
    [await lab.tokens(provider), await lab.credit(evaluator), await lab.credit(treasury)],
    [pay, evaluatorFee, platformFee],
  );
  assert.equal(await lab.tried(stranger, 'claimRelease', [id]), 'WrongStatus', 'once');
  assert.equal(await lab.tried(stranger, 'claimRelease', [agreed]), 'SilenceRefunds');
  assert.ok(await lab.act(stranger, 'claimRefund', [agreed]), 'if agreed');
  assert.equal(await lab.tokens(client), before + budget);
});

test('a pause during the whole window costs the evaluator no time and the provider no pay', async (t) => {
  const lab = await openLab(t);
  const [good, silent, agreed, idle] = [
    await lab.job('submitted'),
    await lab.job('submitted'),
    await lab.job('submitted', silence.refund),
    await lab.job('funded'),
  ];
  assert.ok(await lab.act(owner, 'setPaused', [true]));
  assert.ok(await lab.act(owner, 'setPaused', [true]), 'repeating it changes nothing');
  await lab.anvil.forward(10 * windowSeconds);
  assert.equal(await lab.tried(client, 'claimRefund', [agreed]), 'GracePeriodActive');
  assert.equal(await lab.tried(provider, 'claimRelease', [silent]), 'GracePeriodActive');
  assert.ok(await lab.act(stranger, 'claimRefund', [idle]), 'nothing was delivered: a refund');
  assert.ok(await lab.act(owner, 'setPaused', [false]));
  await lab.anvil.forward(windowSeconds / 2);
  assert.equal(await lab.tried(client, 'claimRefund', [agreed]), 'GracePeriodActive');
  assert.ok(await lab.act(evaluator, 'complete', [good, some, '0x']), 'the window is still open');
  await lab.anvil.forward(windowSeconds / 2);
  assert.ok(await lab.act(stranger, 'claimRelease', [silent]));
  assert.ok(await lab.act(stranger, 'claimRefund', [agreed]));
});

test('an owner that never ends a pause delays a job by at most 30 days', async (t) => {
  const lab = await openLab(t);
  const id = await lab.job('submitted');
  const base = await lab.read<bigint>('evaluationEnd', [id]);
  assert.ok(await lab.act(owner, 'setPaused', [true]));
  await lab.anvil.forward(40 * daySeconds);
  const end = await lab.read<bigint>('evaluationEnd', [id]);
  assert.equal(end - base, BigInt(30 * daySeconds));
  assert.ok(await lab.act(stranger, 'claimRelease', [id]));
  assert.equal(await lab.tokens(provider), pay);
  assert.equal(await withdrawn(lab, evaluator), evaluatorFee, 'withdrawals are never paused');
});

test('fees and treasury are fixed for existing jobs, and a new owner must accept', async (t) => {
  const lab = await openLab(t);
  const id = await lab.job('submitted');
  assert.ok(await lab.act(owner, 'setPlatformFee', [0n, stranger]));
  assert.ok(await lab.act(owner, 'setEvaluatorFee', [1000n]));
  assert.ok(await lab.act(evaluator, 'complete', [id, some, '0x']));
  assert.deepEqual(
    [await lab.credit(treasury), await lab.credit(stranger), await lab.credit(evaluator)],
    [platformFee, 0n, evaluatorFee],
  );
  const conditions = { silence: silence.release, platformFeeBP: 200n, evaluatorFeeBP: 500n };
  const expiry = BigInt((await lab.now()) + 1000);
  const terms = [provider, evaluator, expiry, 'job', `0x${'0'.repeat(40)}`, 0n];
  const create = [...terms, conditions];
  assert.equal(await lab.tried(client, 'createJobWithTerms', create), 'FeesChanged');
  assert.equal(await lab.tried(owner, 'setEvaluatorFee', [1001n]), 'FeesTooHigh');

  assert.ok(await lab.act(owner, 'transferOwnership', [stranger]));
  assert.equal(String(await lab.read('owner')).toLowerCase(), owner, 'not yet');
  assert.equal(await lab.tried(stranger, 'setPaused', [true]), 'Unauthorized');
  assert.equal(await lab.tried(client, 'acceptOwnership', []), 'Unauthorized');
  assert.ok(await lab.act(owner, 'transferOwnership', [`0x${'0'.repeat(40)}`]), 'withdrawn');
  assert.equal(await lab.tried(stranger, 'acceptOwnership', []), 'Unauthorized');
  assert.ok(await lab.act(owner, 'transferOwnership', [stranger]));
  assert.ok(await lab.act(stranger, 'acceptOwnership', []));
  assert.equal(String(await lab.read('owner')).toLowerCase(), stranger);
  assert.equal(await lab.tried(owner, 'setPaused', [true]), 'Unauthorized');
});
