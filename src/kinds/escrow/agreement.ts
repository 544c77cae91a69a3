// The amount that the client has agreed to: the posted budget, its latest own counter-offer, or the proposal it
// accepted when it funded the job. The public spec always states this amount, and funding moves exactly it. Pure.
import { AppError } from '../../errors.ts';
import { formatUnits } from './money.ts';
import { specHash, specText, type Terms } from './terms.ts';
import type { Work } from './work.ts';

export const agreedBudget = ({ terms }: Pick<Work, 'terms'>): number => Number(terms.budget.amount);

/** The latest proposal, if it differs from what the client has agreed to. */
export function proposedBudget(work: Work): number | undefined {
  return work.phase === 'open' && work.budget !== agreedBudget(work) ? work.budget : undefined;
}

/** Returns the job with this amount in its spec. `revises` keeps the hash of the first spec. */
export function withAgreedBudget(work: Work, amount: number): Work {
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
 * The amount that funding this job moves. Only the client can agree to an amount: the amount it passes must equal the
 * latest proposal. If it passes none, the latest proposal must equal what it agreed to before.
 */
export function amountToFund(work: Work, expected: number | undefined): number {
  const named = expected ?? agreedBudget(work);
  refuseAboveMaxBudget(work, named);
  if (named === work.budget) return named;
  const [proposed, agreed] = [formatUnits(work.budget), formatUnits(named)];
  throw new AppError(
    'budgetChanged',
    `The proposed budget of ${work.jobId} is now ${proposed}, but the client agreed to ${agreed}. Nothing was paid.`,
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

/** A repeated call to fund a job must name the amount that was paid, or none. */
export function refuseOtherAmount(work: Work, expected: number | undefined): void {
  if (expected === undefined || expected === work.budget) return;
  const [paid, other] = [formatUnits(work.budget), formatUnits(expected)];
  throw new AppError(
    'budgetChanged',
    `${work.jobId} was funded with ${paid}, but this call expected ${other}. Nothing was paid by this call.`,
    {
      hint: `The budget of a funded job is final. To read the job, call get_job; to repeat the call, use expectedBudget "${work.budget}". For another amount post a new job.`,
      data: { budget: String(work.budget), expected: String(expected) },
    },
  );
}

/** The client's limit applies to every offer and every acceptance. */
export function refuseAboveMaxBudget({ jobId, terms }: Work, amount: number): void {
  const { max } = terms.budget;
  if (max === undefined || amount <= Number(max)) return;
  throw new AppError(
    'maxBudgetExceeded',
    `The budget of ${jobId} is limited to ${formatUnits(Number(max))}; ${formatUnits(amount)} exceeds it.`,
    { hint: 'The client set this limit (maxBudget) when it posted the job.', data: { max } },
  );
}

/** Only the newest offers are stored: on a chain, every party can make any number of them. */
export const offersKept = 100;

export function refuseFurtherOffers({ jobId, state }: Work, by: string, max: number): void {
  if (state.offers.filter((offer) => offer.by === by).length < max) return;
  throw new AppError('limitExceeded', `You have already made ${max} counter-offers for ${jobId}.`, {
    hint: 'Accept or decline the job, or ask for a new one. The setting `escrow.maxOffers` sets this limit.',
  });
}
