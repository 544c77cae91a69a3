// Reputation of a wallet, computed from how its jobs with others ended and whom it paid. Nothing is stored, so nothing can
// drift. Only accepted or delivered work counts, weighed by amount and by how many different owners it was done for.
import { byName } from '../../runtime/by-name.ts';
import type { Wallet } from './rows.ts';
import { formatUnits, microPerUnit } from './money.ts';
import type { EscrowStore } from './store.ts';
import type { Ending } from './work-store.ts';

/** Points of one ended job of full weight for its provider; what is not named is neutral. */
const jobPoints: Record<string, number> = byName({
  'completed/approved': 5,
  'completed/silence': 5,
  'completed/resolved': 5,
  'completed/split': 0,
  'rejected/rejected': -3,
  'rejected/resolved': -3,
});
/** What one counterparty can add or take at most, however many jobs it gives: many must agree. */
const [praiseMax, blameMax] = [10, -3];
/** For each owner that was ever paid. */
const payeePoints = 1;
const payeesCountedMax = 20;

export interface Reputation {
  wallet: string;
  address: string;
  score: { total: number; success: number; failure: number };
  /** Of jobs that were accepted or delivered, with wallets of other owners. */
  counts: {
    payments: number;
    jobs: number;
    completed: number;
    rejected: number;
    expired: number;
    counterparties: number;
  };
  /** How it behaves as a client: jobs that it let lapse or whose evaluation it kept silent on. */
  asClient: { jobs: number; completed: number; silent: number };
  frozen: boolean;
  lifetimeVolume: string;
  firstSeenAt: string;
  lastActiveAt: string;
}

export async function reputationOf(store: EscrowStore, wallet: Wallet): Promise<Reputation> {
  const [provided, hired, payments] = await Promise.all([
    store.works.endings(wallet.id, 'provider'),
    store.works.endings(wallet.id, 'client'),
    store.payments.paymentTotals(wallet.id),
  ]);
  const count = (rows: typeof provided, fits: (row: (typeof provided)[number]) => boolean) =>
    rows.filter(fits).reduce((sum, { n }) => sum + Number(n), 0);
  const paid = Math.min(payments.payees, payeesCountedMax) * payeePoints;
  const success = rounded(sum(provided, (points) => points > 0, praiseMax) + paid);
  const failure = rounded(sum(provided, (points) => points < 0, blameMax));
  const completed = (row: { phase: string }) => row.phase === 'completed';
  const volume = provided.filter(completed).reduce((sum, { amount }) => sum + Number(amount), 0);
  const last = [...provided, ...hired, payments].map((row) => Number(row.last));
  return {
    wallet: wallet.id,
    address: wallet.address,
    score: { total: rounded(success + failure), success, failure },
    counts: {
      payments: payments.n,
      jobs: count(provided, () => true),
      completed: count(provided, completed),
      rejected: count(provided, ({ outcome }) => outcome === 'rejected'),
      expired: count(provided, ({ phase }) => phase === 'expired'),
      counterparties: new Set(provided.map(({ counterparty }) => counterparty)).size,
    },
    asClient: {
      jobs: count(hired, () => true),
      completed: count(hired, completed),
      silent: count(hired, ({ outcome }) => outcome === 'silence'),
    },
    frozen: wallet.status === 'frozen',
    lifetimeVolume: formatUnits(volume + payments.amount),
    firstSeenAt: new Date(wallet.createdAt).toISOString(),
    lastActiveAt: new Date(Math.max(wallet.createdAt, ...last)).toISOString(),
  };
}

/** What the score is made of, newest first. */
export async function reputationEvents(store: EscrowStore, wallet: Wallet, limit: number) {
  const [jobs, paid] = await Promise.all([
    store.works.ended(wallet.id, limit),
    store.payments.paidBy(wallet.id, limit),
  ]);
  const events = [
    ...jobs.map((row) => ({
      source: row.jobId,
      type: row.phase === 'completed' ? 'job_completed' : `job_${row.outcome}`,
      points: rounded(pointsOf(row) * Math.min(1, Number(row.budget) / microPerUnit)),
      at: Number(row.at),
    })),
    // Payees count, not payments: one more to the same changes nothing.
    ...paid.map(({ id, at }) => ({
      source: id,
      type: 'payment_success',
      points: 0,
      at: Number(at),
    })),
  ];
  return events
    .toSorted((a, b) => b.at - a.at)
    .slice(0, limit)
    .map((event) => ({ ...event, at: new Date(event.at).toISOString() }));
}

const rounded = (points: number): number => Math.round(points * 100) / 100 || 0;

/** Points of one sign, weighed by amount, and limited for each counterparty. */
function sum(rows: readonly Ending[], fits: (points: number) => boolean, limit: number): number {
  const by = new Map<string, number>();
  for (const row of rows) {
    const points = pointsOf(row);
    if (!fits(points)) continue;
    by.set(row.counterparty, (by.get(row.counterparty) ?? 0) + points * Number(row.weight));
  }
  const limited = [...by.values()].map((points) =>
    limit > 0 ? Math.min(points, limit) : Math.max(points, limit),
  );
  return limited.reduce((total, points) => total + points, 0);
}

const pointsOf = (row: { phase: string; outcome: string }): number =>
  jobPoints[`${row.phase}/${row.outcome}`] ?? 0;
