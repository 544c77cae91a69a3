// How money moves for a job, behind one interface. The embedded ledger moves it inside the job's own transaction; a chain
// accepts an intent inside that transaction and confirms later, and then the job moves.
import type { Step } from '../../../store/store.ts';
import type { Effect } from '../stage.ts';
import type { Move, MoveInput } from '../move.ts';
import type { Fees } from '../money.ts';
import type { Wallet } from '../rows.ts';
import type { Work } from '../work.ts';

export const capabilityNames = [
  'milestones',
  'split',
  'release-on-silence',
  'dispute',
  'quorum',
  'counter',
  'fund-by',
] as const;

export type Plan =
  /** These steps make the money part true; the job moves in the same transaction. */
  | { when: 'now'; steps: Step[] }
  /** These steps write the intent; the job moves once the settlement confirms it. */
  | { when: 'later'; id: string; steps: Step[] };

/** Terms that the settlement fixes for every job on it. */
export interface FixedTerms {
  fees?: Fees;
  evaluationMs?: number;
  expiryMsMin?: number;
}

/** What a settlement found when it compared its own state with the jobs of this server. Amounts in micro-units. */
export interface SettlementReport {
  jobs: number;
  /** Changes that the settlement confirmed to this server. */
  entries: number;
  /** What it holds for these jobs. */
  escrowed: string;
  /** Fees of the jobs that were paid. */
  fees: { platform: string; evaluator: string };
  problems: string[];
}

export interface Settlement {
  readonly name: string;
  /** What it calls its money, as callers see it. */
  readonly currency: string;
  readonly capabilities: ReadonlySet<string>;
  fixed(): Promise<FixedTerms>;
  /** Before a job is written: refuses what it can never settle; a chain writes its first intent. */
  open(work: Work): Promise<Plan>;
  plan(request: { before: Work; move: Move; effect: Effect; input: MoveInput }): Promise<Plan>;
  /** What a wallet can spend here, in micro-units. */
  balanceOf(wallet: Wallet): Promise<number>;
  /** Compares every job with the settlement itself. Without it: verify.ts knows everything from the entries. */
  verify?(): Promise<SettlementReport & Record<string, unknown>>;
  /** For health checks: undefined when it works, else what is wrong. */
  trouble(): Promise<string | undefined>;
}
