// The contract alone on its own node, with a token that misbehaves on request, and jobs in any status.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { decodeErrorResult, decodeFunctionResult, encodeFunctionData, type Hex } from 'viem';
import { contracts, operatorAddress, startAnvil, type Anvil, type Artifact } from './anvil.ts';

export const addressOf = (n: number): Hex => `0x${String(n).padStart(40, '0')}`;
export const nobody = addressOf(0);
export const some: Hex = `0x${'11'.repeat(32)}`;
export const people = {
  client: addressOf(101),
  provider: addressOf(102),
  evaluator: addressOf(103),
  treasury: addressOf(104),
  stranger: addressOf(105),
  owner: operatorAddress as Hex,
};
export const budget = 1_000_000n;
export const lifeSeconds = 1000;
export const windowSeconds = 5000;
/** The contract's `enum Silence`. */
export const silence = { release: 0, refund: 1 };
/** The token's `enum Mode`. */
export const mode = {
  honest: 0,
  answersNothing: 1,
  reverts: 2,
  answersFalse: 3,
  burnsGas: 4,
  answersTooMuch: 5,
};

export interface Lab {
  anvil: Anvil;
  escrow: Hex;
  token: Hex;
  /** Calls the contract; returns false if it reverts. */
  act(from: Hex, name: string, args: unknown[]): Promise<boolean>;
  /** Simulates a call: `done`, or the name of the error. */
  tried(from: Hex, name: string, args: unknown[]): Promise<string>;
  hostile(name: string, args: unknown[]): Promise<void>;
  read<T>(name: string, args?: unknown[]): Promise<T>;
  tokens(owner: Hex): Promise<bigint>;
  credit(owner: Hex): Promise<bigint>;
  now(): Promise<number>;
  job(status: 'open' | 'funded' | 'submitted', silenceRule?: number): Promise<bigint>;
}

export async function openLab(t: TestContext): Promise<Lab> {
  const anvil = await startAnvil(t, 1_800_000_000);
  const token = await anvil.deploy(contracts.hostile);
  const fees = [200n, 500n];
  const escrow = await anvil.deploy(contracts.escrow, [
    ...[people.treasury, ...fees],
    ...[60n, BigInt(windowSeconds)],
  ]);
  const readOf = async <T>(to: Hex, { abi }: Artifact, functionName: string, args: unknown[]) => {
    const data = encodeFunctionData({ abi, functionName, args });
    const answer = await anvil.rpc<Hex>('eth_call', [{ to, data }, 'latest']);
    return decodeFunctionResult({ abi, functionName, data: answer }) as T;
  };
  const lab: Omit<Lab, 'job'> = {
    anvil,
    escrow,
    token,
    act: (from, name, args) => anvil.send(from, escrow, contracts.escrow, name, args),
    tried: async (from, name, args) => {
      const { abi } = contracts.escrow;
      const data = encodeFunctionData({ abi, functionName: name, args });
      const { error } = (await anvil.raw('eth_call', [{ from, to: escrow, data }, 'latest'])) as {
        error?: { message: string; data?: Hex };
      };
      if (!error) return 'done';
      return decodeErrorResult({ abi: [...abi, ...contracts.hostile.abi], data: error.data! })
        .errorName;
    },
    hostile: async (name, args) =>
      assert.ok(await anvil.send(people.owner, token, contracts.hostile, name, args), name),
    read: (name, args = []) => readOf(escrow, contracts.escrow, name, args),
    tokens: (owner) => readOf(token, contracts.hostile, 'balanceOf', [owner]),
    credit: (owner) => readOf(escrow, contracts.escrow, 'credits', [owner, token]),
    now: async () => {
      const block = await anvil.rpc<{ timestamp: Hex }>('eth_getBlockByNumber', ['latest', false]);
      return Number(block.timestamp);
    },
  };
  await lab.hostile('mint', [people.client, 1_000n * budget]);
  const approval = [escrow, 1_000n * budget];
  assert.ok(await anvil.send(people.client, token, contracts.hostile, 'approve', approval));
  const done = async (from: Hex, name: string, args: unknown[]) =>
    assert.ok(await lab.act(from, name, args), name);
  return {
    ...lab,
    job: async (status, silenceRule = silence.release) => {
      const { client, provider, evaluator } = people;
      const expiry = BigInt((await lab.now()) + lifeSeconds);
      const conditions = { silence: silenceRule, platformFeeBP: 200n, evaluatorFeeBP: 500n };
      const terms = [provider, evaluator, expiry, 'job', nobody, 0n, conditions];
      await done(client, 'createJobWithTerms', terms);
      const id = await lab.read<bigint>('jobCounter');
      await done(client, 'setBudget', [id, token, budget, '0x']);
      if (status !== 'open') await done(client, 'fund', [id, budget, '0x']);
      if (status === 'submitted') await done(provider, 'submit', [id, some, '0x']);
      return id;
    },
  };
}
