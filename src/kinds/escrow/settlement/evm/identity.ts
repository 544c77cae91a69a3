// Which chain the jobs are on, stored on first contact. A node of another chain (a wrong address, a recreated test node) is
// refused: judged by its blocks, every job would seem undone.
import { AppError } from '../../../../errors.ts';
import type { Chain } from './chain.ts';
import type { ChainIdentity, EvmStore } from '../../store/chain.ts';

export class Identity {
  private readonly chain: Chain;
  private readonly evmStore: EvmStore;
  private readonly configured: number | undefined;

  constructor(chain: Chain, evmStore: EvmStore, configured: number | undefined) {
    this.chain = chain;
    this.evmStore = evmStore;
    this.configured = configured;
  }

  async check(): Promise<void> {
    const found = await this.chain.askChainId();
    const { chainId } = await this.known(found);
    if (found !== chainId) throw otherChain(`It reports chain ${found} instead of ${chainId}.`);
  }

  async checkGenesis(): Promise<void> {
    const { genesis } = await this.known(await this.chain.askChainId());
    const found = await this.chain.block(0);
    if (found?.hash !== genesis) throw otherChain('Its genesis block differs.');
  }

  private async known(found: number): Promise<ChainIdentity> {
    if (this.configured !== undefined && this.configured !== found) {
      throw otherChain(`It reports chain ${found}, but escrow.evm.chainId is ${this.configured}.`);
    }
    const before = await this.evmStore.identity();
    if (before) return before;
    const genesis = (await this.chain.block(0))?.hash ?? '';
    const identity = { chainId: found, genesis };
    await this.evmStore.commit([this.evmStore.insertIdentity(identity)]);
    return identity;
  }
}

const otherChain = (what: string): AppError =>
  new AppError('unavailable', `The chain node belongs to another chain. ${what}`, {
    hint: 'Nothing was changed. Set escrow.evm.rpcUrl to a node of the chain that holds the jobs.',
  });
