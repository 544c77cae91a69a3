// The escrow kind: one agent hires another under a budget; the rule agreed on decides; the money moves once.
import { z } from 'zod';
import type { Kind } from '../../jobs/kind.ts';
import type { Operation } from '../../operation.ts';
import type { Caller } from '../../operation.ts';
import type { EscrowServices } from './services.ts';
import { adminOperations } from './operations/admin.ts';
import { deliveryOperations } from './operations/delivery.ts';
import { walletOperations } from './operations/wallets.ts';
import { workOperations } from './operations/work.ts';
import { rolesOf } from './terms.ts';
import { viewFields } from './view.ts';

export function escrowOperations(services: EscrowServices): Operation[] {
  return [
    ...workOperations(services),
    ...deliveryOperations(services),
    ...walletOperations(services),
    ...adminOperations(services),
  ];
}

const input = z.object({ title: z.string(), budget: z.string(), provider: z.string() });

/** `services` is asked for late: the kind is registered before its parts exist. */
export function escrowKind(services: () => EscrowServices): Kind {
  return {
    name: 'escrow',
    input,
    dispatched: false,
    retryable: false,
    cancellable: false,
    keeps: true,
    capacity: () => 0,
    summary: (job) => {
      const { title, budget } = job.input as z.infer<typeof input>;
      return `${title} (${budget} micro-units)`;
    },
    view: async (job, caller) => {
      const { store, clock } = services();
      const work = await store.findWork(job.id);
      if (!work) return {};
      const wallet = await walletOf(services(), caller, work.terms);
      return viewFields(work, { wallet, now: clock.now(), paused: await store.paused() });
    },
    readableBy: async (job, caller) => {
      const work = await services().store.findWork(job.id);
      return work !== undefined && (await walletOf(services(), caller, work.terms)) !== undefined;
    },
  };
}

/** The caller's wallet that has a role in the job. */
async function walletOf(
  services: EscrowServices,
  caller: Caller | undefined,
  terms: Parameters<typeof rolesOf>[0],
): Promise<string | undefined> {
  if (!caller) return undefined;
  const wallets = await services.wallets.list(caller);
  return wallets.find(({ id }) => rolesOf(terms, id).size > 1)?.id;
}
