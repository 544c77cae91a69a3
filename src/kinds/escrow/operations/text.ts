// Renders a job, its terms, a wallet and the books as a few lines of text. Amounts are in units: 2.50.
import { quoted } from '../../../runtime/untrusted-text.ts';
import { formatUnits } from '../money.ts';
import type { SettlementReport } from '../settlement/settlement.ts';
import type { Verification } from '../verify.ts';
import { proposalLines, type WorkView } from '../view.ts';

export function workText(view: WorkView): string {
  const evaluation = view.evaluation as { outcome?: string; reason?: string; rule: string };
  const lines = [
    `${view.id} ${view.stage}, ${String(view.amount)} ${view.currency} (${view.settlement})`,
    ...proposalLines(view),
    nextLine(view),
    ...(view.availableActions.length > 0 ? [`you may: ${view.availableActions.join(', ')}`] : []),
    ...[view.onSilence, view.risk].flatMap((line) => (line ? [String(line)] : [])),
    ...(evaluation.outcome ? [`${evaluation.outcome}: ${evaluation.reason ?? ''}`] : []),
    ...(view.existing ? ['This is the job that already exists for this purchase.'] : []),
  ];
  return lines.filter((line) => line !== '').join('\n');
}

function nextLine(view: WorkView): string {
  if (view.settling) {
    const then = view.fundsNext ? '; it will then be funded' : '';
    return `settling: the ${view.settlement} settlement has not confirmed ${String(view.settling)} yet${then}`;
  }
  if (!view.nextActor) return '';
  return `next: ${view.nextActor}${view.deadline ? ` until ${view.deadline}` : ''}`;
}

interface TermsView {
  id: string;
  stage: string;
  amount: string;
  currency: string;
  title: string;
  specHash: string;
  description: string;
  deliverable?: { hash: string; uri?: string; content?: string };
}

/** Renders what was agreed and delivered. */
export function termsText(output: unknown): string {
  const terms = output as TermsView;
  const { deliverable } = terms;
  return [
    `${terms.id} ${terms.stage}, ${terms.amount} ${terms.currency}`,
    `title: ${terms.title}`,
    `spec: ${terms.specHash}`,
    'description:',
    terms.description,
    ...(deliverable ? [`delivered: ${deliverable.hash}`] : []),
    ...(deliverable?.uri ? [`at: ${quoted(deliverable.uri)}`] : []),
    ...(deliverable?.content ? [deliverable.content] : []),
  ].join('\n');
}

/** Renders a wallet. A key or claim key appears only in the response that creates it. */
export function walletText(output: unknown): string {
  const wallet = output as Record<string, string | undefined>;
  return [
    `${wallet.id} ${wallet.status}, ${wallet.balance} ${wallet.currency}`,
    ...(wallet.name === undefined ? [] : [`name: ${wallet.name}`]),
    `address: ${wallet.address}`,
    ...(wallet.key === undefined ? [] : [`key: ${wallet.key} (shown once)`]),
    ...(wallet.claimKey === undefined ? [] : [`claim key: ${wallet.claimKey} (shown once)`]),
  ].join('\n');
}

/** Renders the books: what exists, what is held in escrow, which fees were earned. */
export function verificationText(output: unknown): string {
  const { entries, accounts, jobs, supply, escrowed, fees, settlements, fold } =
    output as Verification;
  return [
    `The books are correct: ${entries} entries, ${accounts} accounts, ${jobs} jobs.`,
    `credit: ${units(supply)}, of which in escrow ${units(escrowed)}`,
    `fees earned: platform ${units(fees.platform)}, evaluators ${units(fees.evaluator)}`,
    ...Object.entries(settlements).map(([name, report]) => settlementLine(name, report)),
    `fold: ${fold}`,
  ].join('\n');
}

const units = (micro: string): string => formatUnits(Number(micro));

const settlementLine = (name: string, { jobs, escrowed, fees }: SettlementReport): string =>
  `${name}: ${jobs} jobs, in escrow ${units(escrowed)}, fees earned: platform ${units(fees.platform)}, evaluators ${units(fees.evaluator)}`;
