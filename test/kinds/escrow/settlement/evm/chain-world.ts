// A world whose money is on a chain: the same operations as in every world, and a loop that runs the adapter until nothing
// is pending.
import type { TestContext } from 'node:test';
import type { AssembleDeps } from '../../../../../src/kinds/escrow/assemble.ts';
import { createEvm, type Evm } from '../../../../../src/kinds/escrow/settlement/evm/index.ts';
import { evmMigrations } from '../../../../../src/kinds/escrow/migrations.ts';
import { escrowMigrations } from '../../../../../src/kinds/escrow/migrations.ts';
import { rpcOf } from '../../../../../src/kinds/escrow/outbound.ts';
import { escrowSettingsSchema } from '../../../../../src/kinds/escrow/settings.ts';
import { createEgress } from '../../../../../src/runtime/egress/index.ts';
import { ManualClock, systemClock } from '../../../../../src/runtime/clock.ts';
import { silentLog } from '../../../../../src/runtime/log.ts';
import type { Store } from '../../../../../src/store/store.ts';
import { stores } from '../../../../helpers/stores.ts';
import { until } from '../../../../helpers/until.ts';
import { createWorld, type Agent, type Answer, type World } from '../../world.ts';
import { contracts, operatorAddress, startAnvil, type Anvil, type Order } from './anvil.ts';
import type { Hex } from 'viem';

export interface ChainWorld extends World {
  anvil: Anvil;
  evm: Evm;
  escrowAddress: Hex;
  tokenAddress: Hex;
  turn(): Promise<void>;
  /** Runs the adapter until neither the job nor a withdrawal is pending, and returns the job. */
  settled(id: string): Promise<Answer>;
  tokens(who: Agent | string): Promise<number>;
  /** Advances both clocks. */
  pass(ms: number): Promise<void>;
}

export const evaluationSeconds = 3600;
const start = Date.UTC(2027, 0, 1);

export interface Chained {
  anvil: Anvil;
  escrowAddress: Hex;
  tokenAddress: Hex;
}

export async function deployAll(t: TestContext, order?: Order): Promise<Chained> {
  const anvil = await startAnvil(t, start / 1000, order);
  const tokenAddress = await anvil.deploy(contracts.token);
  const args = [operatorAddress, 200, 500, 60n, BigInt(evaluationSeconds)];
  const escrowAddress = await anvil.deploy(contracts.escrow, args);
  return { anvil, tokenAddress, escrowAddress };
}

export async function createChainWorld(
  t: TestContext,
  options: {
    chained?: Chained;
    store?: Store;
    clock?: ManualClock;
    confirmations?: number;
    /** Additional chain settings: another node address, timeouts. */
    evm?: Record<string, unknown>;
    settings?: Record<string, unknown>;
    deps?: Partial<AssembleDeps>;
  } = {},
): Promise<ChainWorld> {
  const chained = options.chained ?? (await deployAll(t));
  const { anvil, tokenAddress, escrowAddress } = chained;
  const clock = options.clock ?? new ManualClock(start);
  const store =
    options.store ?? (await stores[0]!.open(t, [...escrowMigrations, ...evmMigrations]));
  const egress = createEgress({ policy: { allow: [] }, clock: systemClock, log: silentLog });
  t.after(() => egress.close());
  const settings = escrowSettingsSchema.parse({
    ...options.settings,
    settlement: 'evm',
    evm: {
      rpcUrl: anvil.url,
      contract: escrowAddress,
      token: tokenAddress,
      confirmations: options.confirmations ?? 1,
      operatorKeyFile: anvil.keyFile,
      ...options.evm,
    },
  });
  const evm = await createEvm({
    store,
    clock,
    log: silentLog,
    settings: settings.evm!,
    rpc: rpcOf(egress, settings.evm!.rpcUrl, settings.evm!.timeoutMs),
    secret: 'the home of this test',
  });
  const world = await createWorld(t, {
    store,
    clock,
    settings,
    deps: { ...options.deps, settlements: [evm.settlement], makeAddress: evm.makeAddress },
  });
  return extend(world, evm, chained);
}

function extend(world: World, evm: Evm, chained: Chained): ChainWorld {
  const { anvil, tokenAddress } = chained;
  const turn = () => evm.turn(world.services.escrow);
  return {
    ...world,
    ...chained,
    evm,
    turn,
    settled: (id) =>
      until(`the chain has confirmed ${id}`, async () => {
        await turn();
        const job = await world.call(world.admin, 'get_job', { id });
        const withdrawals = await world.store.read(
          `SELECT 1 AS one FROM escrow_intents WHERE status = 'active' AND action = 'withdraw'`,
        );
        return job.settling === undefined && withdrawals.length === 0 ? job : undefined;
      }),
    tokens: async (who) => {
      const address = typeof who === 'string' ? who : who.address;
      return Number(await evm.chain.tokenBalance(address));
    },
    agent: async (name, credit) => {
      const agent = await world.agent(name);
      if (credit !== undefined) {
        const micro = BigInt(Math.round(Number(credit) * 1_000_000));
        const args = [agent.address, micro];
        await anvil.send(operatorAddress, tokenAddress, contracts.token, 'mint', args);
      }
      return agent;
    },
    pass: async (ms) => {
      world.clock.jump(ms);
      await anvil.forward(ms / 1000);
    },
  };
}
