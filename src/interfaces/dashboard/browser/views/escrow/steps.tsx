// What happened to an escrow job and when, and the deadlines that follow.
import type { ComponentChildren } from 'preact';
import { units } from '../../amounts.ts';
import { Time } from '../../parts/time.tsx';
import { Deadline } from './deadline.tsx';
import { isOver } from './load.ts';
import { walletName, type Wallet, type Work } from './types.ts';

interface Step {
  at: string;
  text: ComponentChildren;
  isNext?: true;
}

export function Steps({ work, wallets }: { work: Work; wallets: readonly Wallet[] }) {
  return (
    <ol class="steps">
      {stepsOf(work, wallets).map(({ at, text, isNext }, i) => (
        <li key={i} class={isNext ? 'next' : ''}>
          <span class="dim">{isNext ? <Deadline at={at} /> : <Time at={at} />}</span> {text}
        </li>
      ))}
    </ol>
  );
}

const words: Readonly<Record<string, string>> = {
  create: 'posted',
  fund: 'paid into escrow',
  submit: 'delivered',
  complete: 'paid out',
  reject: 'rejected, returned to the client',
  release: 'paid out',
  refund: 'returned to the client',
};

function stepsOf(work: Work, wallets: readonly Wallet[]): Step[] {
  const { evaluation, dispute, nextActor = '', deadline } = work;
  const money = (amount: string) => (amount === '0' ? '' : ` (${units(amount)} ${work.currency})`);
  const done: Step[] = [
    ...work.transactions.map(({ kind, amount, at }) => ({
      at,
      text: `${words[kind] ?? kind}${money(amount)}`,
    })),
    ...(evaluation.outcome === undefined || evaluation.at === undefined
      ? []
      : [{ at: evaluation.at, text: `verdict: ${evaluation.outcome}` }]),
    ...(dispute ? [{ at: dispute.at, text: 'disputed' }] : []),
    ...(dispute?.resolution
      ? [{ at: dispute.resolution.at, text: `resolved: ${dispute.resolution.answer}` }]
      : []),
  ].toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at));
  if (isOver(work)) return done;
  const [role = '', wallet] = nextActor.split(' ');
  const who = wallet === undefined ? role : `${role} ${walletName(wallets, wallet)}`;
  const isDelivery = work.stage === 'funded' || work.expiresAt === deadline;
  return [
    ...done,
    ...(deadline === undefined
      ? []
      : [
          {
            at: deadline,
            text: who === '' ? 'deadline' : `deadline for ${who}`,
            isNext: true as const,
          },
        ]),
    ...(isDelivery || work.expiresAt === undefined || work.stage !== 'open'
      ? []
      : [{ at: work.expiresAt, text: 'deadline for the delivery', isNext: true as const }]),
  ];
}
