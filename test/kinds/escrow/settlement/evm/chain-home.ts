// A chain with the current time and the deployed contract, and the settings for a real server on it.
import type { TestContext } from 'node:test';
import type { Hex } from 'viem';
import { keccak256 } from '../../../../../src/runtime/keccak.ts';
import { contracts, operatorAddress, startAnvil, type Anvil } from './anvil.ts';

export interface LiveChain {
  anvil: Anvil;
  escrow: Hex;
  token: Hex;
  /** The `escrow` section of a home's config.json. */
  settings: { settlement: 'evm'; minExpiryMs: number; sweepMs: number; evm: { rpcUrl: string } };
  mint(address: string, micro: number): Promise<void>;
  /** Token balance of an address, in micro-units. */
  owns(address: string): Promise<number>;
}

export async function startChain(t: TestContext): Promise<LiveChain> {
  const anvil = await startAnvil(t, Math.floor(Date.now() / 1000), 'fees');
  const token = await anvil.deploy(contracts.token);
  const escrow = await anvil.deploy(contracts.escrow, [operatorAddress, 200, 500, 1n, 3600n]);
  const evm = {
    rpcUrl: anvil.url,
    contract: escrow,
    token,
    confirmations: 1,
    pollMs: 40,
    operatorKeyFile: anvil.keyFile,
  };
  return {
    anvil,
    escrow,
    token,
    settings: { settlement: 'evm', minExpiryMs: 1, sweepMs: 100, evm },
    mint: async (address, micro) => {
      const args = [address, BigInt(micro)];
      await anvil.send(operatorAddress, token, contracts.token, 'mint', args);
    },
    owns: async (address) => {
      const owner = address.slice(2).padStart(64, '0');
      const data = keccak256('balanceOf(address)').slice(0, 10) + owner;
      return Number(await anvil.rpc('eth_call', [{ to: token, data }, 'latest']));
    },
  };
}
