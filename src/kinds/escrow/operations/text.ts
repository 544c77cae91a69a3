// A job in a few lines for people and models.
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
    const then = view.fundsNext ? '; it is funded then' : '';
    return `settling: the ${view.settlement} settlement has not confirmed ${String(view.settling)} yet${then}`;
  }
  if (!view.nextActor) return '';
  return `next: ${view.nextActor}${view.deadline ? ` until ${view.deadline}` : ''}`;
}
