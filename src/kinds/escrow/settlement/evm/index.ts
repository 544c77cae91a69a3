// Constructs the chain adapter: settlement, sender and indexer for one node, with the operator key.
import { readFileSync } from 'node:fs';
import { AppError } from '../../../../errors.ts';
import type { Clock } from '../../../../runtime/clock.ts';
import type { Log } from '../../../../runtime/log.ts';
import type { Store } from '../../../../store/store.ts';
import type { Escrow } from '../../escrow.ts';
import type { EscrowSettings } from '../../settings.ts';
import { EscrowStore } from '../../store/store.ts';
import type { MakeAddress } from '../../wallets.ts';
import { Chain, loadViem, type Hex, type Rpc } from './chain.ts';
import { Identity } from './identity.ts';
import { EvmSettlement } from './evm.ts';
import type { EvmDeps } from './deps.ts';
import { Indexer } from './indexer.ts';
import { Keystore } from './keystore.ts';
import { Sender } from './sender.ts';
import { EvmStore } from '../../store/chain.ts';

export interface Evm {
  settlement: EvmSettlement;
  makeAddress: MakeAddress;
  chain: Chain;
  /** Polls the chain once: first reads events, then sends what is pending. */
  turn(escrow: Escrow): Promise<void>;
}

export async function createEvm(deps: {
  store: Store;
  clock: Clock;
  log: Log;
  settings: NonNullable<EscrowSettings['evm']>;
  rpc: Rpc;
  /** Encrypts the wallets' keys; the same after every restart. */
  secret: string;
}): Promise<Evm> {
  const { settings, clock, log, rpc } = deps;
  const chain = new Chain({ rpc, ...settings, ...(await loadViem()) });
  const keystore = new Keystore(deps.secret);
  const evmStore = new EvmStore(deps.store);
  const store = new EscrowStore(deps.store);
  const key = operatorKey(settings.operatorKeyFile);
  const operator = { key, address: chain.addressOf(key) };
  const { confirmations, currency } = settings;
  const identity = new Identity(chain, evmStore, settings.chainId);
  const now = () => clock.now();
  const evmDeps: EvmDeps = { chain, evmStore, store, operator, identity, currency, now };
  const gasTopUpWei = BigInt(settings.gasTopUpWei);
  let workers: { sender: Sender; indexer: Indexer } | undefined;
  return {
    chain,
    settlement: new EvmSettlement(evmDeps),
    makeAddress: async () => {
      const made = chain.newKey();
      return { address: made.address, secret: keystore.seal(made.key) };
    },
    turn: async (escrow) => {
      await identity.check();
      const { stuckMs } = settings;
      const sameChain = () => identity.checkGenesis();
      workers ??= {
        sender: new Sender({
          ...evmDeps,
          escrow,
          keystore,
          confirmations,
          gasTopUpWei,
          stuckMs,
          log,
        }),
        indexer: new Indexer({ chain, evmStore, store, escrow, confirmations, sameChain, log }),
      };
      await workers.indexer.turn();
      await workers.sender.turn();
    },
  };
}

function operatorKey(file: string): Hex {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new AppError('unavailable', `The operator key file ${file} cannot be read.`, {
      hint: 'Set escrow.evm.operatorKeyFile to a file with 0x and 64 hex digits, mode 0600.',
      cause: error,
    });
  }
  if (!/^0x[0-9a-fA-F]{64}$/.test(text)) {
    throw new AppError(
      'invalidInput',
      `${file} does not contain a private key (0x and 64 hex digits).`,
    );
  }
  return text as Hex;
}
