// The JSON-RPC calls that the adapter makes to an EVM node. viem encodes, decodes and signs; it is optional and imported at
// first use. Node failures become `unavailable`; reverts become the error code of the contract's error.
import { byName } from '../../../../runtime/by-name.ts';
import { AppError } from '../../../../errors.ts';
import contract from './contract.json' with { type: 'json' };

export type Hex = `0x${string}`;

interface BlockInfo {
  number: number;
  hash: string;
  timestamp: number;
}

export interface ChainEvent {
  name: string;
  args: Record<string, unknown>;
  block: number;
  blockHash: string;
  txHash: string;
  logIndex: number;
}

export interface Call {
  to: Hex;
  data: Hex;
  value?: bigint;
}

export interface SignedTx {
  raw: Hex;
  hash: Hex;
}

/** One JSON-RPC call; throws `unavailable` if the node cannot be reached, and RpcError for the node's own errors. */
export type Rpc = (method: string, params: unknown[]) => Promise<unknown>;

export class RpcError extends Error {
  readonly data: unknown;
  constructor(message: string, data: unknown) {
    super(message);
    this.data = data;
  }
}

/** The contract's errors and their error codes here. */
const reverts: Record<string, string> = byName({
  InvalidJob: 'notFound',
  WrongStatus: 'wrongStage',
  Unauthorized: 'notParty',
  ZeroAddress: 'invalidInput',
  ExpiryTooShort: 'expiryTooShort',
  ExpiryTooLong: 'expiryTooLong',
  ZeroBudget: 'invalidAmount',
  BudgetMismatch: 'budgetChanged',
  ProviderCannotBeEvaluator: 'selfJob',
  ProviderCannotBeClient: 'selfJob',
  GracePeriodActive: 'evaluationPending',
  NotYetExpired: 'notYetExpired',
  DeadlinePassed: 'deadlinePassed',
  TokenAlreadySet: 'unsupportedBySettlement',
  Paused: 'escrowPaused',
  HookNotWhitelisted: 'ruleCannotRun',
  InsufficientBalance: 'insufficientBalance',
});

/** Nodes accept a replacement only if it pays at least 10 % more. */
const feeBumpPercent = 125n;

const tokenAbi = [
  {
    type: 'function',
    name: 'approve',
    stateMutability: 'nonpayable',
    inputs: [{ type: 'address' }, { type: 'uint256' }],
    outputs: [{ type: 'bool' }],
  },
  {
    type: 'function',
    name: 'balanceOf',
    stateMutability: 'view',
    inputs: [{ type: 'address' }],
    outputs: [{ type: 'uint256' }],
  },
] as const;

type Viem = typeof import('viem');
type Accounts = typeof import('viem/accounts');

export class Chain {
  readonly contract: Hex;
  readonly token: Hex;
  private readonly rpc: Rpc;
  private readonly viem: Viem;
  private readonly accounts: Accounts;
  private chainIdKnown: number | undefined;

  constructor(deps: { rpc: Rpc; contract: string; token: string; viem: Viem; accounts: Accounts }) {
    this.rpc = deps.rpc;
    this.contract = deps.contract.toLowerCase() as Hex;
    this.token = deps.token.toLowerCase() as Hex;
    this.viem = deps.viem;
    this.accounts = deps.accounts;
  }

  /** Never cached: the node behind an address may change. */
  async askChainId(): Promise<number> {
    return Number(await this.rpc('eth_chainId', []));
  }

  async chainId(): Promise<number> {
    this.chainIdKnown ??= await this.askChainId();
    return this.chainIdKnown;
  }

  async block(number: number | 'latest'): Promise<BlockInfo | undefined> {
    const tag = number === 'latest' ? number : this.viem.numberToHex(number);
    const found = (await this.rpc('eth_getBlockByNumber', [tag, false])) as {
      number: string;
      hash: string;
      timestamp: string;
    } | null;
    return found
      ? { number: Number(found.number), hash: found.hash, timestamp: Number(found.timestamp) }
      : undefined;
  }

  async events(from: number, to: number): Promise<ChainEvent[]> {
    const { numberToHex } = this.viem;
    const logs = (await this.rpc('eth_getLogs', [
      { address: this.contract, fromBlock: numberToHex(from), toBlock: numberToHex(to) },
    ])) as {
      topics: [Hex, ...Hex[]];
      data: Hex;
      blockNumber: string;
      blockHash: string;
      transactionHash: string;
      logIndex: string;
    }[];
    return logs.map((log) => {
      const abi = contract.abi as import('viem').Abi;
      const { eventName, args } = this.viem.decodeEventLog({
        abi,
        topics: log.topics,
        data: log.data,
        strict: false,
      });
      return {
        name: eventName ?? '',
        args: (args ?? {}) as Record<string, unknown>,
        block: Number(log.blockNumber),
        blockHash: log.blockHash,
        txHash: log.transactionHash,
        logIndex: Number(log.logIndex),
      };
    });
  }

  async receipt(hash: string): Promise<{ ok: boolean; block: number } | undefined> {
    const found = (await this.rpc('eth_getTransactionReceipt', [hash])) as {
      status: string;
      blockNumber: string;
    } | null;
    return found ? { ok: Number(found.status) === 1, block: Number(found.blockNumber) } : undefined;
  }

  /** The number of an address's transactions in the chain up to a block. */
  async nonce(address: string, block: number | 'latest' = 'latest'): Promise<number> {
    const tag = block === 'latest' ? block : this.viem.numberToHex(block);
    return Number(await this.rpc('eth_getTransactionCount', [address, tag]));
  }

  async gasBalance(address: string): Promise<bigint> {
    return BigInt((await this.rpc('eth_getBalance', [address, 'latest'])) as string);
  }

  async tokenBalance(address: string, block?: number): Promise<bigint> {
    const tag = block === undefined ? 'latest' : this.viem.numberToHex(block);
    const data = this.viem.encodeFunctionData({
      abi: tokenAbi,
      functionName: 'balanceOf',
      args: [address as Hex],
    });
    return BigInt((await this.rpc('eth_call', [{ to: this.token, data }, tag])) as string);
  }

  /** The amount that an address can withdraw from the contract, in the configured token. */
  async credit(address: string, block?: number): Promise<bigint> {
    return (await this.read('credits', [address, this.token], block)) as bigint;
  }

  /** Calls a view function of the contract by name, at a block or at the latest one. */
  async read(name: string, args: unknown[] = [], block?: number): Promise<unknown> {
    const data = this.encode(name, args).data;
    const tag = block === undefined ? 'latest' : this.viem.numberToHex(block);
    const answer = (await this.rpc('eth_call', [{ to: this.contract, data }, tag])) as Hex;
    if (answer === '0x') {
      throw new AppError('unavailable', `No escrow contract exists at ${this.contract}.`, {
        hint: 'Check the settings escrow.evm.contract and escrow.evm.rpcUrl: they must belong to the same chain.',
      });
    }
    const abi = contract.abi as import('viem').Abi;
    return this.viem.decodeFunctionResult({ abi, functionName: name, data: answer });
  }

  encode(name: string, args: unknown[]): Call {
    const abi = contract.abi as import('viem').Abi;
    const data = this.viem.encodeFunctionData({ abi, functionName: name, args });
    return { to: this.contract, data };
  }

  approval(amount: bigint): Call {
    const data = this.viem.encodeFunctionData({
      abi: tokenAbi,
      functionName: 'approve',
      args: [this.contract, amount],
    });
    return { to: this.token, data };
  }

  /** The gas estimate also simulates the call: one that would revert is refused here with the contract's reason. */
  async sign(key: Hex, from: string, nonce: number, call: Call): Promise<SignedTx> {
    const { numberToHex, keccak256 } = this.viem;
    const value = call.value ?? 0n;
    const request = { from, to: call.to, data: call.data, value: numberToHex(value) };
    const gas = BigInt(await this.tryCall(request));
    const raw = await this.accounts.privateKeyToAccount(key).signTransaction({
      type: 'eip1559',
      chainId: await this.chainId(),
      nonce,
      to: call.to,
      data: call.data,
      value,
      gas: (gas * 13n) / 10n,
      ...(await this.fees()),
    });
    return { raw, hash: keccak256(raw) };
  }

  /** The same call with the same nonce and a higher fee: at most one of the two can be mined. */
  async replacement(key: Hex, raw: Hex): Promise<SignedTx> {
    const { keccak256, parseTransaction } = this.viem;
    const before = parseTransaction(raw as `0x02${string}`);
    const now = await this.fees();
    const higher = (old: bigint | undefined, present: bigint) => {
      const raised = ((old ?? 0n) * feeBumpPercent) / 100n + 1n;
      return raised > present ? raised : present;
    };
    const replaced = await this.accounts.privateKeyToAccount(key).signTransaction({
      type: 'eip1559',
      chainId: before.chainId,
      nonce: before.nonce ?? 0,
      to: before.to!,
      data: before.data ?? '0x',
      value: before.value ?? 0n,
      gas: before.gas!,
      maxPriorityFeePerGas: higher(before.maxPriorityFeePerGas, now.maxPriorityFeePerGas),
      maxFeePerGas: higher(before.maxFeePerGas, now.maxFeePerGas),
    });
    return { raw: replaced, hash: keccak256(replaced) };
  }

  private async fees(): Promise<{ maxPriorityFeePerGas: bigint; maxFeePerGas: bigint }> {
    const latest = (await this.rpc('eth_getBlockByNumber', ['latest', false])) as {
      baseFeePerGas?: string;
    };
    const maxPriorityFeePerGas = 1_000_000_000n;
    const maxFeePerGas = BigInt(latest.baseFeePerGas ?? '0x0') * 2n + maxPriorityFeePerGas;
    return { maxPriorityFeePerGas, maxFeePerGas };
  }

  /** Sending the same raw transaction again is safe: errors that report it as already known are ignored. */
  async send(raw: string): Promise<void> {
    try {
      await this.rpc('eth_sendRawTransaction', [raw]);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      if (!/already (known|imported)|nonce too low|known transaction/i.test(error.message))
        throw error;
    }
  }

  newKey(): { key: Hex; address: string } {
    const key = this.accounts.generatePrivateKey();
    return { key, address: this.addressOf(key) };
  }

  addressOf(key: Hex): string {
    return this.accounts.privateKeyToAccount(key).address.toLowerCase();
  }

  private async tryCall(request: Record<string, unknown>): Promise<string> {
    try {
      return (await this.rpc('eth_estimateGas', [request])) as string;
    } catch (error) {
      throw error instanceof RpcError ? this.revertOf(error) : error;
    }
  }

  private revertOf(error: RpcError): AppError {
    let name = '';
    try {
      const abi = [
        ...contract.abi,
        { type: 'error', name: 'InsufficientBalance', inputs: [] },
      ] as import('viem').Abi;
      name = this.viem.decodeErrorResult({ abi, data: error.data as Hex }).errorName;
    } catch {
      // A token may revert with its own error: then only its message is available.
    }
    const code = reverts[name] ?? 'settlementFailed';
    return new AppError(code, `The chain rejected the call: ${name || error.message}`);
  }
}

/** viem is an optional dependency: only servers that settle on a chain need it. */
export async function loadViem(): Promise<{ viem: Viem; accounts: Accounts }> {
  try {
    return { viem: await import('viem'), accounts: await import('viem/accounts') };
  } catch (error) {
    throw new AppError('unavailable', 'The evm settlement requires the package viem.', {
      hint: 'Install it next to errand: npm install viem.',
      cause: error,
    });
  }
}
