// Random calls by ten actors, with tokens that block, stop, lie and call back, with pauses and changing fees. After every
// block the contract holds exactly the live budgets and unclaimed credits; at the end every job ends and nothing is left.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeFunctionResult, encodeFunctionData, type Hex } from 'viem';
import { contracts, operatorAddress, startAnvil, type Anvil, type Artifact } from './anvil.ts';
import { Model, type Log, type ModelJob } from './fuzz-model.ts';
import { addressOf, mode, nobody, silence, some } from './lab.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const callsCount = deep ? 100_000 : 2_000;
const callsPerBlock = 40;
/** Older jobs are not called until the end. */
const jobsInPlay = 60;
const daySeconds = 86_400;
const owner = operatorAddress as Hex;
const actors: Hex[] = [owner, ...Array.from({ length: 9 }, (_, i) => addressOf(201 + i))];
const stranger = addressOf(300);

interface Call {
  from: Hex;
  to: Hex;
  name: string;
  data: Hex;
}

/** mulberry32: a small generator, deterministic for each seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

class Fuzz {
  readonly model: Model;
  readonly counts = new Map<string, number>();
  private readonly anvil: Anvil;
  private readonly escrow: Hex;
  private readonly tokens: Hex[];
  private readonly random: (below: number) => number;
  private fees: readonly bigint[] = [0n, 0n];
  /** The newest jobs as of the last block, grouped by what can happen to them. */
  private inPlay: ModelJob[][] = [];
  private now = 0;

  constructor(anvil: Anvil, escrow: Hex, tokens: Hex[], seed: number) {
    this.anvil = anvil;
    this.escrow = escrow;
    this.tokens = tokens;
    this.random = randomOf(seed);
    this.model = new Model(escrow);
  }

  call(from: Hex, name: string, args: unknown[], to = this.escrow): Call {
    const { abi }: Artifact = to === this.escrow ? contracts.escrow : contracts.hostile;
    return { from, to, name, data: encodeFunctionData({ abi, functionName: name, args }) };
  }

  pick<T>(list: readonly T[]): T {
    return list[this.random(list.length)]!;
  }

  /** Mines one block with these calls; returns which of them succeeded. */
  async mine(calls: readonly Call[], seconds = 1 + this.random(90)): Promise<boolean[]> {
    const gas = '0x7a120';
    const requests = calls.map(({ from, to, data }) => ({
      method: 'eth_sendTransaction',
      params: [{ from, to, data, gas }],
    }));
    const hashes = await this.anvil.batch<Hex>(requests);
    await this.anvil.rpc('evm_increaseTime', [seconds]);
    await this.anvil.rpc('evm_mine');
    const receipts = await this.anvil.rpc<{ transactionHash: Hex; status: Hex; logs: Log[] }[]>(
      'eth_getBlockReceipts',
      ['latest'],
    );
    assert.equal(receipts.length, calls.length, 'the block contains every call');
    for (const { logs } of receipts) for (const log of logs) this.model.apply(log);
    const worked = new Map(receipts.map((one) => [one.transactionHash, one.status === '0x1']));
    const results = hashes.map((hash) => worked.get(hash) ?? false);
    for (const [i, { name }] of calls.entries()) {
      if (results[i]) this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    }
    const newest = this.model.jobs.slice(-jobsInPlay);
    const lists = [0, 1, 2, 3].map((status) =>
      newest.filter((job) => Math.min(job.status, 3) === status),
    );
    const offered = lists[0]!.filter(({ budget }) => budget > 0n);
    this.inPlay = [offered, ...lists].filter((list) => list.length > 0);
    const { timestamp } = await this.anvil.rpc<{ timestamp: Hex }>('eth_getBlockByNumber', [
      'latest',
      false,
    ]);
    this.now = Number(timestamp);
    return results;
  }

  async read<T>(asks: { to: Hex; name: string; args: unknown[] }[]): Promise<T[]> {
    const abiOf = (to: Hex) => (to === this.escrow ? contracts.escrow : contracts.hostile).abi;
    const answers = await this.anvil.batch<Hex>(
      asks.map(({ to, name, args }) => {
        const data = encodeFunctionData({ abi: abiOf(to), functionName: name, args });
        return { method: 'eth_call', params: [{ to, data }, 'latest'] };
      }),
    );
    return answers.map((data, i) => {
      const { to, name } = asks[i]!;
      return decodeFunctionResult({ abi: abiOf(to), functionName: name, data }) as T;
    });
  }

  async check(): Promise<void> {
    this.model.check();
    const found = await this.read<bigint>(
      this.tokens.flatMap((token) => [
        { to: token, name: 'balanceOf', args: [this.escrow] },
        { to: this.escrow, name: 'owed', args: [token] },
        { to: token, name: 'breaches', args: [] },
      ]),
    );
    for (const [i, token] of this.tokens.entries()) {
      const { live, credits } = this.model.due(token);
      const [balance, owed, breaches] = found.slice(3 * i, 3 * i + 3);
      assert.equal(balance, live + credits, `balance of token ${i}: live budgets and credits`);
      assert.equal(owed, live + credits, `debts in token ${i}`);
      assert.equal(breaches, 0n, `callbacks of token ${i} that succeeded`);
    }
    const fees = ['platformFeeBP', 'evaluatorFeeBP'];
    this.fees = await this.read(fees.map((name) => ({ to: this.escrow, name, args: [] })));
  }

  /** Every job as the contract stores it. */
  async checkStorage(): Promise<void> {
    const { jobs, live } = this.model;
    for (let start = 0; start < jobs.length; start += 500) {
      const some = jobs.slice(start, start + 500);
      const stored = await this.read<{ status: number }>(
        some.map(({ id }) => ({ to: this.escrow, name: 'getJob', args: [id] })),
      );
      const escrowed = await this.read<bigint>(
        some.map(({ id }) => ({ to: this.escrow, name: 'escrowed', args: [id] })),
      );
      for (const [i, job] of some.entries()) {
        assert.equal(stored[i]!.status, job.status, `status of job ${job.id}`);
        const held = live.get([job.token, job.id].join()) ?? 0n;
        assert.equal(escrowed[i], held, `escrow of job ${job.id}`);
      }
    }
  }

  /** Mostly a permitted actor and a possible call; sometimes not. */
  next(): Call {
    const { random, pick } = { random: this.random, pick: this.pick.bind(this) };
    const dice = random(100);
    if (this.inPlay.length === 0 || dice < 12) return this.creation();
    const job = pick(pick(this.inPlay));
    if (dice < 76) return this.step(job);
    if (dice < 84) return this.call(pick(actors), 'withdraw', [this.aToken(job), this.anyone()]);
    if (dice < 87) return this.call(this.mostly(owner), 'setPaused', [random(5) === 0]);
    if (dice < 89) {
      const fee = [BigInt(random(1200)), pick(actors)];
      return this.call(this.mostly(owner), 'setPlatformFee', fee);
    }
    if (dice < 90) return this.call(this.mostly(owner), 'setEvaluatorFee', [BigInt(random(1200))]);
    const token = pick(this.tokens);
    if (dice < 94) return this.call(stranger, 'block_', [pick(actors), random(5) === 0], token);
    if (dice < 97) {
      const modes = Object.values(mode);
      const next = random(2) === 0 ? mode.honest : pick(modes);
      return this.call(stranger, 'setMode', [next], token);
    }
    return this.call(stranger, 'callBack', [this.escrow, this.attack(job).data], token);
  }

  private creation(): Call {
    const [client, provider] = [this.pick(actors), this.pick(actors)];
    const evaluator = this.random(8) === 0 ? this.pick(this.tokens) : this.pick(actors);
    const expiry = BigInt(this.now + 60 + this.random(900));
    const terms = [provider, evaluator, expiry, 'x', nobody, 0n];
    if (this.random(2) === 0) return this.call(client, 'createJob', terms);
    const [platformFeeBP, evaluatorFeeBP] = this.fees;
    const conditions = { silence: this.random(2), platformFeeBP, evaluatorFeeBP };
    return this.call(client, 'createJobWithTerms', [...terms, conditions]);
  }

  /** The next call for a job, by the right party or by anybody. */
  private step(job: ModelJob): Call {
    const { id, client, provider, evaluator } = job;
    const token = job.token === '0x' ? this.pick(this.tokens) : this.aToken(job);
    const amount = BigInt(1 + this.random(3_000_000));
    const offer = () => this.call(this.mostly(client), 'setBudget', [id, token, amount, '0x']);
    const raise = () => this.call(this.mostly(provider), 'setBudget', [id, token, amount, '0x']);
    const fund = () => {
      const expected = this.random(10) === 0 ? amount : job.budget;
      return this.call(this.mostly(client), 'fund', [id, expected, '0x']);
    };
    const reject = () => {
      const who = this.pick([client, provider, evaluator, this.pick(actors)]);
      return this.call(who, 'reject', [id, some, '0x']);
    };
    const submit = () => this.call(this.mostly(provider), 'submit', [id, some, '0x']);
    const complete = () => {
      const who = this.pick([evaluator, client]);
      return this.call(this.mostly(who), 'complete', [id, some, '0x']);
    };
    const claims = ['claimRefund', 'claimRelease'].map(
      (name) => () => this.call(this.pick(actors), name, [id]),
    );
    // For half of the jobs nobody delivers or decides in time.
    const isSlow = id % 2n === 0n;
    const likely = [
      job.budget === 0n ? [offer] : [fund, fund, fund, fund, fund, raise],
      isSlow ? [submit, ...claims] : [submit, submit, submit, reject],
      isSlow ? claims : [complete, complete, complete, reject],
    ][job.status];
    const any = [offer, raise, fund, submit, complete, reject, ...claims];
    return this.pick(likely && this.random(6) > 0 ? likely : any)();
  }

  private attack({ id, token }: ModelJob): Call {
    const calls = [
      this.call(stranger, 'claimRefund', [id]),
      this.call(stranger, 'claimRelease', [id]),
      this.call(stranger, 'complete', [id, some, '0x']),
      this.call(stranger, 'reject', [id, some, '0x']),
      this.call(stranger, 'withdraw', [token === '0x' ? this.tokens[0] : token, this.anyone()]),
    ];
    return this.pick(calls);
  }

  private aToken(job: ModelJob): Hex {
    return job.token === '0x' || this.random(20) === 0 ? this.pick(this.tokens) : job.token;
  }

  private anyone(): Hex {
    return this.pick([...actors, ...this.tokens]);
  }

  private mostly(who: Hex): Hex {
    return this.random(12) === 0 ? this.pick(actors) : who;
  }
}

async function prepared(fuzz: Fuzz, anvil: Anvil, escrow: Hex, tokens: Hex[]): Promise<void> {
  await anvil.rpc('anvil_autoImpersonateAccount', [true]);
  await anvil.rpc('evm_setAutomine', [false]);
  await anvil.rpc('evm_setBlockGasLimit', ['0xffffffffff']);
  const richWei = `0x${(10n ** 30n).toString(16)}`;
  for (const who of [...actors, stranger, ...tokens])
    await anvil.rpc('anvil_setBalance', [who, richWei]);
  const calls = tokens.flatMap((token) =>
    actors.flatMap((who) => [
      fuzz.call(stranger, 'mint', [who, 10n ** 18n], token),
      fuzz.call(who, 'approve', [escrow, 10n ** 18n], token),
    ]),
  );
  assert.ok((await fuzz.mine(calls, 1)).every(Boolean));
}

test(`${callsCount} random calls: the contract holds exactly what it owes, and every job can end`, async (t) => {
  const seed = Number(process.env.ERRAND_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
  t.diagnostic(`ERRAND_TEST_SEED=${seed}`);
  const anvil = await startAnvil(t, 1_800_000_000);
  const tokens: Hex[] = [];
  for (let i = 0; i < 3; i++) tokens.push(await anvil.deploy(contracts.hostile));
  const escrow = await anvil.deploy(contracts.escrow, [owner, 200n, 500n, 60n, 200n]);
  const fuzz = new Fuzz(anvil, escrow, tokens, seed);
  await prepared(fuzz, anvil, escrow, tokens);
  try {
    for (let made = 0; made < callsCount; made += callsPerBlock) {
      const calls = Array.from({ length: callsPerBlock }, () => fuzz.next());
      await fuzz.mine(calls);
      await fuzz.check();
    }
    await fuzz.checkStorage();
    await ended(fuzz, escrow, tokens);
    await assertBusy(fuzz, tokens);
  } catch (error) {
    throw new Error(`ERRAND_TEST_SEED=${seed}`, { cause: error });
  }
});

/** Worst case: the owner never ends its pause, tokens block and refuse. Strangers end every job, then money is withdrawn. */
async function ended(fuzz: Fuzz, escrow: Hex, tokens: Hex[]): Promise<void> {
  const { model } = fuzz;
  await fuzz.mine([fuzz.call(owner, 'setPaused', [true])], 1);
  await fuzz.mine([fuzz.call(stranger, 'setMode', [mode.reverts], tokens[0])], 31 * daySeconds);
  const running = model.jobs.filter(({ status }) => status < 3);
  const terms = await fuzz.read<{ silence: number }>(
    running.map(({ id }) => ({ to: escrow, name: 'getTerms', args: [id] })),
  );
  const ends = running.map(({ id, status }, i) => {
    const isReleased = status === 2 && terms[i]!.silence === silence.release;
    return fuzz.call(stranger, isReleased ? 'claimRelease' : 'claimRefund', [id]);
  });
  const worked = await inBlocks(fuzz, ends);
  assert.deepEqual(
    running.filter((_, i) => !worked[i]).map(({ id }) => id),
    [],
    'every job can end',
  );
  assert.ok(model.jobs.every(({ status }) => status >= 3));
  await fuzz.check();
  await fuzz.checkStorage();
  const peace = tokens.flatMap((token) => [
    fuzz.call(stranger, 'setMode', [mode.honest], token),
    ...actors.map((who) => fuzz.call(stranger, 'block_', [who, false], token)),
  ]);
  await fuzz.mine(peace, 1);
  const open = [...model.credits].filter(([, amount]) => amount > 0n);
  assert.ok(open.length > 0);
  const withdrawals = open.map(([key]) => fuzz.call(stranger, 'withdraw', key.split(',')));
  assert.ok(
    (await inBlocks(fuzz, withdrawals)).every(Boolean),
    'everybody can withdraw their credit',
  );
  await fuzz.check();
  for (const token of tokens) assert.deepEqual(model.due(token), { live: 0n, credits: 0n });
}

/** Guards against a vacuous run: every function succeeded at least once, and tokens really called back. */
async function assertBusy(fuzz: Fuzz, tokens: Hex[]): Promise<void> {
  const names = ['createJob', 'createJobWithTerms', 'setBudget', 'fund', 'submit', 'complete'];
  for (const name of [...names, 'reject', 'claimRefund', 'claimRelease', 'withdraw']) {
    assert.ok((fuzz.counts.get(name) ?? 0) > 0, `${name} worked`);
  }
  const attempts = await fuzz.read<bigint>(
    tokens.map((to) => ({ to, name: 'attempts', args: [] })),
  );
  assert.ok(attempts.some((count) => count > 0n));
}

async function inBlocks(fuzz: Fuzz, calls: readonly Call[]): Promise<boolean[]> {
  const results: boolean[] = [];
  for (let i = 0; i < calls.length; i += callsPerBlock) {
    results.push(...(await fuzz.mine(calls.slice(i, i + callsPerBlock), 1)));
  }
  return results;
}
