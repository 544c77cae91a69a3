// Views of escrow jobs, wallets and payments: amounts as text, who must act next and until when, what this caller may do
// now. Callers without a role get the public part, which never contains the delivered text.
import { z } from 'zod';
import type { Job } from '../../jobs/job.ts';
import type { KindText } from '../../jobs/kind.ts';
import { cleanLine, isQuoted, quoted } from '../../runtime/untrusted-text.ts';
import { agreedBudget, proposedBudget } from './agreement.ts';
import { formatUnits } from './money.ts';
import type { Payment, Wallet } from './store/rows.ts';
import { finalPhases, nextActor, roles, type Role } from './stage.ts';
import { evaluatorsOf, isAutomatic, rolesOf, silenceText, specHash } from './terms.ts';
import {
  availableActions,
  momentOf,
  stageOf,
  type Check,
  type Verdict,
  type Work,
} from './work.ts';

const micro = z.string().describe('Micro-units: 1000000 is one unit');
const isoTime = z.string();

export const workView = z.looseObject({
  id: z.string(),
  stage: z.string(),
  title: z.string().optional(),
  budget: micro.describe('Budget agreed by the client, in micro-units: 1000000 is one unit'),
  proposed: z
    .looseObject({ budget: micro, by: z.string() })
    .optional()
    .describe('Latest proposed budget; the client accepts it by funding with expectedBudget'),
  currency: z.string(),
  settlement: z.string(),
  client: z.string(),
  provider: z.string(),
  evaluator: z.string().optional(),
  yourRoles: z.array(z.enum(roles)).optional(),
  availableActions: z.array(z.string()).describe('Actions open to you now'),
  nextActor: z.string().optional().describe('Who must act next'),
  deadline: isoTime.optional().describe('When the current stage ends automatically'),
  held: micro.optional().describe('Amount held in escrow for this job'),
  evaluation: z.looseObject({ rule: z.string() }),
  transactions: z.array(z.looseObject({ kind: z.string(), id: z.string(), amount: micro })),
  specHash: z.string(),
});
export type WorkView = z.infer<typeof workView>;

export interface Viewer {
  wallet?: string | undefined;
  now: number;
  paused: boolean;
}

export function viewWork(work: Work, viewer: Viewer): WorkView {
  const held = rolesOf(work.terms, viewer.wallet);
  const party = held.size > 1;
  return {
    id: work.jobId,
    stage: stageOf(work.phase),
    title: quoteFor(work.client, viewer.wallet, work.terms.title),
    ...escrowFields(work, held, viewer, party),
  };
}

/** The fields that get_job adds to the core fields; `title` appears there as the job name. */
export function viewFields(
  job: Pick<Job, 'name' | 'tags'>,
  work: Work,
  viewer: Viewer,
): Record<string, unknown> {
  const held = rolesOf(work.terms, viewer.wallet);
  return { ...escrowFields(work, held, viewer, held.size > 1), ...foreignNames(job, work, viewer) };
}

/** The client wrote name and tags: for all other readers, quoted versions replace the core fields. */
function foreignNames({ name, tags }: Pick<Job, 'name' | 'tags'>, work: Work, { wallet }: Viewer) {
  if (wallet === work.client) return {};
  return {
    ...(name === null ? {} : { name: quoted(name) }),
    ...(tags.length > 0 ? { tags: tags.map(quoted) } : {}),
  };
}

/** Quotes text for its reader, unless the reader or the server itself wrote it. */
export function quoteFor(by: string, reader: string | undefined, text: string): string {
  return by === 'rule' || by === 'system' || by === reader ? cleanLine(text) : quoted(text);
}

/** Who must act next and until when, the actions open to the reader, and the transactions. */
export function turnWords(view: Record<string, unknown>): KindText {
  const { nextActor: next, deadline, settling, availableActions: actions = [] } = view;
  const until = deadline ? ` until ${String(deadline)}` : '';
  const moves = ((view.transactions ?? []) as { kind: string; amount: string }[]).map(
    ({ kind, amount }) => `${kind}${amount === '0' ? '' : ` ${formatUnits(Number(amount))}`}`,
  );
  const lines = [
    ...proposalLines(view),
    ...(settling ? [`settling: ${String(settling)}`] : []),
    ...(next ? [`next: ${String(next)}${until}`] : []),
    ...((actions as string[]).length > 0 ? [`you may: ${(actions as string[]).join(', ')}`] : []),
    ...[view.onSilence, view.risk].flatMap((line) => (line ? [String(line)] : [])),
    ...(moves.length > 0 ? [`transactions: ${moves.join(', ')}`] : []),
  ];
  return { lines };
}

/** States that another amount was proposed, and how to accept it. */
export function proposalLines(view: Record<string, unknown>): string[] {
  const proposed = view.proposed as { by: string; amount: string; budget: string } | undefined;
  if (!proposed) return [];
  return [
    `proposed: ${proposed.amount} by ${proposed.by}; the client agreed to ${String(view.amount)}. Only fund_work with expectedBudget "${proposed.budget}" accepts it.`,
  ];
}

function escrowFields(work: Work, held: Set<Role>, viewer: Viewer, party: boolean) {
  const { terms, state } = work;
  const actions = availableActions(work, held, momentOf(work, viewer.now), viewer.paused);
  const actor = nextActor(work.phase, isAutomatic(terms.evaluation));
  return {
    budget: String(agreedBudget(work)),
    amount: formatUnits(agreedBudget(work)),
    ...proposalOf(work),
    currency: terms.budget.currency,
    settlement: work.settlement,
    ...(work.external ? { settlementId: work.external } : {}),
    client: work.client,
    provider: work.provider,
    ...(work.evaluator ? { evaluator: work.evaluator } : {}),
    ...(party ? { yourRoles: [...held].filter((role) => role !== 'other') } : {}),
    availableActions: actions,
    ...(actor ? { nextActor: walletOfRole(work, actor) } : {}),
    ...(work.deadlineAt === null ? {} : { deadline: iso(work.deadlineAt) }),
    ...(work.held > 0 ? { held: String(work.held) } : {}),
    ...(state.pending ? { settling: state.pending.action } : {}),
    ...(state.fundNext === undefined ? {} : { fundsNext: true }),
    expiresAt: terms.expiredAt,
    ...(terms.milestones.length > 0 ? { milestones: milestonesOf(work, viewer.wallet) } : {}),
    ...(state.offers.length > 0
      ? { offers: state.offers.slice(-offersShown).map(offerOf), offersMade: state.offers.length }
      : {}),
    ...(state.submission ? { deliverable: deliverableOf(work, party) } : {}),
    evaluation: evaluationOf(work, party, viewer.wallet),
    ...silenceOf(work, held),
    ...(state.dispute ? { dispute: disputeOf(work, party, viewer.wallet) } : {}),
    ...(state.outcome ? { outcome: state.outcome } : {}),
    transactions: state.txs.map((tx) => ({ ...tx, amount: String(tx.amount), at: iso(tx.at) })),
    specHash: (work.specHash ??= specHash(work.spec)),
  };
}

/** What silence means until somebody decides, and the risk that a provider should know before starting. */
function silenceOf({ phase, terms, state }: Work, held: ReadonlySet<Role>) {
  if (finalPhases.has(phase) || phase === 'disputed' || state.verdict) return {};
  const onSilence = silenceText(terms, held.has('client'));
  const isAlone =
    terms.evaluation.type === 'manual' && evaluatorsOf(terms)[0] === terms.client.wallet;
  if (!held.has('provider') || !isAlone || terms.dispute) return { onSilence };
  return { onSilence, risk: clientAlone };
}

const clientAlone =
  'The client decides alone and there is no arbiter: it can reject the delivery and take the money back.';

function proposalOf(work: Work) {
  const budget = proposedBudget(work);
  if (budget === undefined) return {};
  const by = work.state.offers.at(-1)?.by ?? 'chain';
  return { proposed: { by, budget: String(budget), amount: formatUnits(budget) } };
}

const iso = (at: number): string => new Date(at).toISOString();

/** The role, with its wallet if exactly one wallet has it: `provider wal_…`. */
function walletOfRole(work: Work, role: Role): string {
  const wallets: Partial<Record<Role, string | null | undefined>> = {
    client: work.client,
    provider: work.provider,
    evaluator: work.evaluator,
    arbiter: work.terms.dispute?.arbiter,
  };
  const wallet = wallets[role];
  return wallet ? `${role} ${wallet}` : role;
}

/** Number of newest offers in a view. */
const offersShown = 5;

const offerOf = ({ by, budget, at }: Work['state']['offers'][number]) => ({
  by,
  budget: String(budget),
  at: iso(at),
});

function milestonesOf(work: Work, reader: string | undefined) {
  const done = finalPhases.has(work.phase) && work.phase === 'completed';
  const { accepted = [] } = work.state;
  return work.terms.milestones.map(({ title, amount }, i) => ({
    title: quoteFor(work.client, reader, title),
    amount: String(amount),
    ...(accepted[i] ? { hash: accepted[i].hash } : {}),
    state:
      i < work.state.milestone || done
        ? 'released'
        : i === work.state.milestone
          ? 'current'
          : 'later',
  }));
}

function deliverableOf(work: Work, party: boolean) {
  const { n, hash, uri, inline, at } = work.state.submission!;
  return { n, hash, ...(party && uri ? { uri } : {}), inline, at: iso(at) };
}

function evaluationOf(work: Work, party: boolean, reader: string | undefined) {
  const { verdict, lastTry, tries } = work.state;
  const rule = work.terms.evaluation;
  return {
    rule: rule.type,
    ...(rule.type === 'quorum' ? { need: rule.need, of: rule.members.length } : {}),
    ...(rule.type === 'quorum' && work.state.votes.length > 0
      ? {
          votes: work.state.votes.map(({ member, outcome, by }) => ({
            member: member + 1,
            outcome,
            by,
          })),
        }
      : {}),
    silence: work.terms.silence,
    ...(verdict
      ? {
          outcome: verdict.outcome,
          reason: quoteFor(verdict.by, reader, verdict.reason),
          by: verdict.by,
          at: iso(verdict.at),
          ...(party ? { checks: checksOf(verdict, reader) } : {}),
        }
      : {}),
    ...(lastTry && !verdict ? { waitingBecause: cleanLine(lastTry), tries } : {}),
  };
}

const checksOf = ({ by, checks }: Verdict, reader: string | undefined): Check[] =>
  checks.map(({ criterion, met, evidence }) => ({
    criterion: quoteFor(by, reader, criterion),
    met,
    evidence: quoteFor(by, reader, evidence),
  }));

/** Only the parties see what both sides and the arbiter wrote. */
function disputeOf(work: Work, party: boolean, reader: string | undefined) {
  const { resolution, ...dispute } = work.state.dispute!;
  const toStatement = ({ by, reason, at }: { by: string; reason: string; at: number }) => ({
    by,
    at: iso(at),
    ...(party ? { reason: quoteFor(by, reader, reason) } : {}),
  });
  return {
    ...toStatement(dispute),
    ...(resolution
      ? { resolution: { answer: resolution.answer, ...toStatement(resolution) } }
      : {}),
  };
}

export const walletView = z.looseObject({
  id: z.string(),
  address: z.string(),
  name: z.string().optional(),
  status: z.string(),
  balance: z.string().describe('In units, like "10.50"'),
  balanceMicro: micro,
  currency: z.string(),
  credit: z.string().optional().describe('Internal credit, if the balance is on a chain'),
});

/** `micro` is undefined while the settlement does not respond. */
type Balance = { micro: number | undefined; currency: string };

/** `reader` is the owner who reads. An admin also reads wallets of other owners, who chose their names. */
export function viewWallet(
  wallet: Wallet,
  { micro, currency }: Balance,
  reader: string | undefined,
): z.infer<typeof walletView> {
  const { name, policy } = wallet;
  const shown = name !== null && wallet.owner !== reader && !isQuoted(name) ? quoted(name) : name;
  const limit = (value: number | null) => (value === null ? undefined : formatUnits(value));
  return {
    id: wallet.id,
    address: wallet.address,
    ...(shown === null ? {} : { name: shown }),
    owner: wallet.owner,
    status: wallet.status,
    balance: micro === undefined ? 'unknown' : formatUnits(micro),
    balanceMicro: micro === undefined ? 'unknown' : String(micro),
    currency,
    limits: {
      perTransaction: limit(policy.txLimit),
      perDay: limit(policy.dailyLimit),
      ...(policy.allowlist.length > 0 ? { allowlist: policy.allowlist } : {}),
      ...(policy.expiresAt === null ? {} : { expiresAt: iso(policy.expiresAt) }),
    },
    createdAt: iso(wallet.createdAt),
  };
}

export const paymentView = z.looseObject({
  id: z.string(),
  from: z.string(),
  to: z.string(),
  amount: z.string(),
  fee: z.string(),
  status: z.string(),
  at: isoTime,
});

/** Only the two parties see memo and purpose; the rest is visible to anybody who knows the unguessable id. */
export function viewPayment(
  payment: Payment,
  reader: string | undefined,
): z.infer<typeof paymentView> {
  const isParty = reader === payment.payer || reader === payment.payee;
  return {
    id: payment.id,
    from: payment.payer,
    to: payment.payee,
    amount: formatUnits(payment.amount),
    fee: formatUnits(payment.fee),
    kind: payment.kind,
    status: payment.status,
    ...(isParty && payment.memo !== null
      ? { memo: quoteFor(payment.payer, reader, payment.memo) }
      : {}),
    at: iso(payment.at),
  };
}
