// The amount that the client has agreed to: its posted budget, its last own counter-offer, or the proposal it accepted
// when it funded the job. The public spec always states it, and funding takes exactly that amount. Pure.
import { AppError } from '../../errors.ts';
import { formatUnits } from './money.ts';
import { specHash, specText, type Terms } from './terms.ts';
import type { Work } from './work.ts';

export const agreedBudget = ({ terms }: Pick<Work, 'terms'>): number => Number(terms.budget.amount);

/** The proposal on the table, where it differs from what the client has agreed to. */
export function proposedBudget(work: Work): number | undefined {
  return work.phase === 'open' && work.budget !== agreedBudget(work) ? work.budget : undefined;
}

/** The job with this amount in its spec. The first spec stays recognisable by its hash. */
export function agreeing(work: Work, amount: number): Work {
  if (amount === agreedBudget(work)) return work;
  const { specHash: _, ...rest } = work;
  const { budget } = work.terms;
  const terms: Terms = {
    ...work.terms,
    budget: {
      ...budget,
      amount: String(amount),
      postedAmount: budget.postedAmount ?? budget.amount,
    },
    revises: work.terms.revises ?? specHash(work.spec),
  };
  return { ...rest, terms, spec: specText(terms) };
}

/**
 * What funding this job takes. Only the client's own words count: the amount it names now must be the proposal on the
 * table, and without one the proposal must be what it agreed to before.
 */
export function amountToFund(work: Work, expected: number | undefined): number {
  const named = expected ?? agreedBudget(work);
  refuseAboveMax(work, named);
  if (named === work.budget) return named;
  const [proposed, agreed] = [formatUnits(work.budget), formatUnits(named)];
  throw new AppError(
    'budgetChanged',
    `The proposed budget of ${work.jobId} is now ${proposed}, and the client agreed to ${agreed}. Nothing was paid.`,
    {
      hint: `To accept ${proposed}, call fund_work with expectedBudget "${work.budget}". To propose another amount, call counter_work.`,
      data: {
        budget: String(work.budget),
        agreed: String(agreedBudget(work)),
        ...(expected === undefined ? {} : { expected: String(expected) }),
      },
    },
  );
}

/** The limit that the client set when it posted the job holds for every offer and every acceptance. */
export function refuseAboveMax({ jobId, terms }: Work, amount: number): void {
  const { max } = terms.budget;
  if (max === undefined || amount <= Number(max)) return;
  throw new AppError(
    'budgetAboveMax',
    `The budget of ${jobId} may be at most ${formatUnits(Number(max))}, not ${formatUnits(amount)}.`,
    { hint: 'The client set that limit when it posted the job (budgetMax).', data: { max } },
  );
}

/** Offers that are remembered, from the newest: on a chain anybody with a part in the job may make any number. */
export const offersKept = 100;

export function refuseFurtherOffers({ jobId, state }: Work, by: string, max: number): void {
  if (state.offers.filter((offer) => offer.by === by).length < max) return;
  throw new AppError('limitExceeded', `You have made ${max} counter-offers for ${jobId} already.`, {
    hint: 'Accept or decline the job, or ask for a new one. The setting `escrow.offersMax` is the limit.',
  });
}
