// How money moves for a job, behind one interface. The embedded ledger moves it inside the job's own transaction. A chain
// stores an intent inside that transaction, and the job moves when the chain confirms it later.
import type { Step } from '../../../store/store.ts';
import type { Effect } from '../stage.ts';
import type { Move, MoveInput } from '../move.ts';
import type { Fees } from '../money.ts';
import type { Wallet } from '../store/rows.ts';
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
  /** These steps move the money; the job moves in the same transaction. */
  | { when: 'now'; steps: Step[] }
  /** These steps store the intent; the job moves once the settlement confirms it. */
  | { when: 'later'; id: string; steps: Step[] };

/** Terms that the settlement sets for all its jobs. */
export interface FixedTerms {
  fees?: Fees;
  evaluationMs?: number;
  minExpiryMs?: number;
}

/** The result of comparing a settlement with the jobs of this server. Amounts in micro-units. */
export interface SettlementReport {
  jobs: number;
  /** Changes that the settlement confirmed to this server. */
  entries: number;
  /** The amount that it holds for these jobs. */
  escrowed: string;
  /** Fees of the paid jobs. */
  fees: { platform: string; evaluator: string };
  problems: string[];
}

export interface Settlement {
  readonly name: string;
  /** The currency name that callers see. */
  readonly currency: string;
  readonly capabilities: ReadonlySet<string>;
  fixed(): Promise<FixedTerms>;
  /** Called before a job is stored: refuses what it can never settle. A chain adds its first intent. */
  open(work: Work): Promise<Plan>;
  plan(request: { before: Work; move: Move; effect: Effect; input: MoveInput }): Promise<Plan>;
  /** The amount that a wallet can spend here, in micro-units. */
  balanceOf(wallet: Wallet): Promise<number>;
  /** Compares every job with the settlement. Not needed for the ledger: verify.ts derives everything from the entries. */
  verify?(): Promise<SettlementReport & Record<string, unknown>>;
  /** For health checks: the problem, or undefined if it works. */
  trouble(): Promise<string | undefined>;
}
