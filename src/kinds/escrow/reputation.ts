// Reputation of a wallet, computed from how its jobs ended and what it paid: each job and each payment is one source and
// counts once by construction. Nothing is stored, so nothing can drift.
import { byName } from '../../runtime/by-name.ts';
import type { Wallet } from './rows.ts';
import { formatUnits } from './money.ts';
import type { EscrowStore } from './store.ts';

/** Points of one ended job for its provider; what is not named is neutral. */
const jobPoints: Record<string, number> = byName({
  'completed/approved': 5,
  'completed/silence': 5,
  'completed/resolved': 5,
  'completed/split': 0,
  'rejected/rejected': -3,
  'rejected/resolved': -3,
  'expired/expired': -1,
});
const paymentPoints = 1;
/** Paying a friend again and again makes nobody more reliable. */
const paymentsCountedMax = 100;

export interface Reputation {
  wallet: string;
  address: string;
  score: { total: number; success: number; failure: number };
  counts: { payments: number; jobs: number; completed: number; rejected: number; expired: number };
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
  const points = provided.map((row) => pointsOf(row) * Number(row.n));
  const paid = Math.min(payments.n, paymentsCountedMax) * paymentPoints;
  const success = points.filter((p) => p > 0).reduce((a, b) => a + b, 0) + paid;
  const failure = points.filter((p) => p < 0).reduce((a, b) => a + b, 0);
  const completed = (row: { phase: string }) => row.phase === 'completed';
  const volume = provided.filter(completed).reduce((sum, { amount }) => sum + Number(amount), 0);
  const last = [...provided, ...hired, payments].map((row) => Number(row.last));
  return {
    wallet: wallet.id,
    address: wallet.address,
    score: { total: success + failure, success, failure },
    counts: {
      payments: payments.n,
      jobs: count(provided, () => true),
      completed: count(provided, completed),
      rejected: count(provided, ({ outcome }) => outcome === 'rejected'),
      expired: count(provided, ({ phase }) => phase === 'expired'),
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
  const [jobs, paid, { n }] = await Promise.all([
    store.works.ended(wallet.id, limit),
    store.payments.paidBy(wallet.id, limit),
    store.payments.paymentTotals(wallet.id),
  ]);
  const events = [
    ...jobs.map((row) => ({
      source: row.jobId,
      type: row.phase === 'completed' ? 'job_completed' : `job_${row.outcome}`,
      points: pointsOf(row),
      at: Number(row.at),
    })),
    ...paid.map(({ id, at }, newer) => ({
      source: id,
      type: 'payment_success',
      points: n - newer <= paymentsCountedMax ? paymentPoints : 0,
      at: Number(at),
    })),
  ];
  return events
    .toSorted((a, b) => b.at - a.at)
    .slice(0, limit)
    .map((event) => ({ ...event, at: new Date(event.at).toISOString() }));
}

const pointsOf = (row: { phase: string; outcome: string }): number =>
  jobPoints[`${row.phase}/${row.outcome}`] ?? 0;
