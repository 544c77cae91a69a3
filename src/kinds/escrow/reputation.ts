// A wallet's reputation, computed from how its jobs with other owners ended. Nothing is stored, so nothing can drift. Only
// accepted or delivered work counts, weighted by amount and by the number of different owners. Payments are listed without
// points: nobody has to accept them, so they would make a score for free.
import { byName } from '../../runtime/by-name.ts';
import type { Wallet } from './store/rows.ts';
import { formatUnits, microPerUnit } from './money.ts';
import type { EscrowStore } from './store/store.ts';
import type { Ending } from './store/work.ts';

/** The provider's points for one ended job of full weight; other outcomes are neutral. */
const jobPoints: Record<string, number> = byName({
  'completed/approved': 5,
  'completed/silence': 5,
  'completed/resolved': 5,
  'completed/split': 0,
  'rejected/rejected': -3,
  'rejected/resolved': -3,
});
/** Limits per counterparty, however many jobs it posts: a high score needs many counterparties. */
const [maxPraise, maxBlame] = [10, -3];

interface Reputation {
  wallet: string;
  address: string;
  score: { total: number; success: number; failure: number };
  /** Counts jobs that were accepted or delivered, with wallets of other owners. */
  counts: {
    payments: number;
    jobs: number;
    completed: number;
    rejected: number;
    expired: number;
    counterparties: number;
  };
  /** Behaviour as a client: jobs that it let lapse, or whose evaluation it never answered. */
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
  const success = roundPoints(sum(provided, (points) => points > 0, maxPraise));
  const failure = roundPoints(sum(provided, (points) => points < 0, maxBlame));
  const completed = (row: { phase: string }) => row.phase === 'completed';
  const volume = provided.filter(completed).reduce((sum, { amount }) => sum + Number(amount), 0);
  const last = [...provided, ...hired, payments].map((row) => Number(row.last));
  return {
    wallet: wallet.id,
    address: wallet.address,
    score: { total: roundPoints(success + failure), success, failure },
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

/** The events behind the score, newest first. */
export async function reputationEvents(store: EscrowStore, wallet: Wallet, limit: number) {
  const [jobs, paid] = await Promise.all([
    store.works.ended(wallet.id, limit),
    store.payments.paidBy(wallet.id, limit),
  ]);
  const events = [
    ...jobs.map((row) => ({
      source: row.jobId,
      type: row.phase === 'completed' ? 'job_completed' : `job_${row.outcome}`,
      points: roundPoints(pointsOf(row) * Math.min(1, Number(row.budget) / microPerUnit)),
      at: Number(row.at),
    })),
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

const roundPoints = (points: number): number => Math.round(points * 100) / 100 || 0;

/** Sums points of one sign, weighted by amount and limited per counterparty. */
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
