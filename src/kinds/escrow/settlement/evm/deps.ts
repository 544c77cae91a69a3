// The dependencies of the chain settlement.
import type { EvmStore } from '../../store/chain.ts';
import type { EscrowStore } from '../../store/store.ts';
import type { Chain, Hex } from './chain.ts';
import type { Identity } from './identity.ts';

export interface EvmDeps {
  chain: Chain;
  evmStore: EvmStore;
  store: EscrowStore;
  operator: { address: string; key: Hex };
  identity: Identity;
  currency: string;
  now(): number;
}
