// A real EVM node for tests: Anvil from npm (its platform package; no install script is needed), with the contract and a
// token deployed. The test controls its clock.
import { spawn, type ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { encodeDeployData, encodeFunctionData, type Abi, type Hex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import contract from '../../../../../src/kinds/escrow/settlement/evm/contract.json' with { type: 'json' };
import { until } from '../../../../helpers/until.ts';
import { tempFolder } from '../../../../helpers/folder.ts';
import { freePort } from '../../../../helpers/port.ts';
import faulty from './FaultyEscrow.json' with { type: 'json' };
import hostile from './HostileToken.json' with { type: 'json' };
import token from './TestToken.json' with { type: 'json' };

export const contracts = {
  escrow: contract as unknown as Artifact,
  faulty: faulty as unknown as Artifact,
  token: token as unknown as Artifact,
  hostile: hostile as unknown as Artifact,
};

export interface Artifact {
  abi: Abi;
  bytecode: Hex;
}

/** Anvil's first well-known account, with ether on every new chain. */
const operatorKey: Hex = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80';
export const operatorAddress = privateKeyToAccount(operatorKey).address.toLowerCase();

export interface Anvil {
  url: string;
  keyFile: string;
  rpc<T = unknown>(method: string, params?: unknown[]): Promise<T>;
  /** Sends many calls in one request; results keep the order. */
  batch<T>(calls: readonly { method: string; params: unknown[] }[]): Promise<T[]>;
  /** Like rpcBatch, but returns raw responses, including errors. */
  raw(method: string, params: unknown[]): Promise<RpcAnswer>;
  deploy(artifact: Artifact, args?: unknown[]): Promise<Hex>;
  /** Sends from any address: the node signs for it. */
  send(from: string, to: Hex, artifact: Artifact, name: string, args: unknown[]): Promise<boolean>;
  /** Sets the chain's clock and mines a block. */
  forward(seconds: number): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** `fees`: like real nodes, higher fees first, and a replacement must pay more; `fifo`: in order of arrival. */
export type Order = 'fees' | 'fifo';

export async function startAnvil(
  t: TestContext,
  startSeconds: number,
  order: Order = 'fifo',
): Promise<Anvil> {
  const folder = tempFolder(t);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const state = join(folder, 'state.json');
  let child: ChildProcess | undefined;
  const start = async () => {
    const args = ['--port', String(port), '--silent', '--state', state, '--chain-id', '31337'];
    args.push('--timestamp', String(startSeconds), '--order', order);
    child = spawn(anvilBinary(), args, { stdio: 'ignore', detached: false });
    await until('anvil responds', async () => (await rpc(url, 'eth_chainId', [])) !== undefined);
  };
  const stop = async () => {
    const ended = new Promise((resolve) => child?.once('exit', resolve));
    child?.kill('SIGTERM');
    await ended;
  };
  t.after(() => void child?.kill('SIGKILL'));
  await start();
  const keyFile = join(folder, 'operator.key');
  writeFileSync(keyFile, operatorKey, { mode: 0o600 });
  const call = <T>(method: string, params: unknown[] = []) =>
    rpc(url, method, params) as Promise<T>;
  const receiptOf = async (hash: string) =>
    until('a receipt', () =>
      call<{ status: Hex; contractAddress: Hex } | null>('eth_getTransactionReceipt', [hash]),
    );
  return {
    url,
    keyFile,
    rpc: call,
    batch: <T>(calls: readonly { method: string; params: unknown[] }[]) =>
      rpcBatch(url, calls) as Promise<T[]>,
    raw: (method, params) => rawRpc(url, method, params),
    start,
    stop,
    deploy: async ({ abi, bytecode }, args = []) => {
      const data = encodeDeployData({ abi, bytecode, args });
      const hash = await call<string>('eth_sendTransaction', [{ from: operatorAddress, data }]);
      return (await receiptOf(hash)).contractAddress;
    },
    send: async (from, to, { abi }, functionName, args) => {
      const data = encodeFunctionData({ abi, functionName, args });
      await call('anvil_impersonateAccount', [from]);
      await call('anvil_setBalance', [from, '0xde0b6b3a7640000']);
      const tx = { from, to, data, gas: '0x1e8480' };
      return (await receiptOf(await call<string>('eth_sendTransaction', [tx]))).status === '0x1';
    },
    forward: async (seconds) => {
      await call('evm_increaseTime', [seconds]);
      await call('evm_mine');
    },
  };
}

export function anvilBinary(): string {
  const require = createRequire(join(import.meta.dirname, '../../../../package.json'));
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${arch}`;
  return join(dirname(require.resolve(`${name}/package.json`)), 'bin/anvil');
}

async function rpc(url: string, method: string, params: unknown[]): Promise<unknown> {
  const body = await rawRpc(url, method, params);
  if (body.error) throw new Error(`${method}: ${body.error.message}`);
  return body.result;
}

async function rpcBatch(
  url: string,
  calls: readonly { method: string; params: unknown[] }[],
): Promise<unknown[]> {
  if (calls.length === 0) return [];
  const body = calls.map((call, id) => ({ jsonrpc: '2.0', id, ...call }));
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const deps = (await answer.json()) as (RpcAnswer & { id: number })[];
  return deps
    .toSorted((a, b) => a.id - b.id)
    .map(({ id, error, result }) => {
      if (error) throw new Error(`${calls[id]!.method}: ${error.message}`);
      return result;
    });
}

interface RpcAnswer {
  result?: unknown;
  error?: { message: string };
}

async function rawRpc(url: string, method: string, params: unknown[]): Promise<RpcAnswer> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return (await answer.json()) as RpcAnswer;
}
