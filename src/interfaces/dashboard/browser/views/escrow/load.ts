// Reads escrow jobs for all wallets of the session, with the jobs that wait for one of them first.
import { get } from '../../api.ts';
import type { Wallet, Work } from './types.ts';

/** Enough for people. Who has more sees the first ones. */
const maxWallets = 12;
const perWallet = 50;

export interface Turn {
  work: Work;
  /** The own wallet that has a role in the job. */
  wallet: Wallet;
  isMine: boolean;
}

interface Board {
  wallets: Wallet[];
  turns: Turn[];
}

const finalStages = new Set(['completed', 'rejected', 'expired']);

export const isOver = ({ stage }: Work): boolean => finalStages.has(stage);

export async function loadBoard(signal: AbortSignal): Promise<Board> {
  const { wallets } = await get<{ wallets: Wallet[] }>('api/wallets', {}, signal);
  const lists = await Promise.all(
    wallets.slice(0, maxWallets).map(async (wallet) => {
      const asked = { wallet: wallet.id, role: 'any', limit: perWallet };
      const { work } = await get<{ work: Work[] }>('api/work', asked, signal);
      return work.map((one) => turnOf(one, wallet));
    }),
  );
  const byId = new Map<string, Turn>();
  for (const turn of lists.flat()) {
    const known = byId.get(turn.work.id);
    if (!known || (turn.isMine && !known.isMine)) byId.set(turn.work.id, turn);
  }
  return { wallets, turns: [...byId.values()].toSorted(compare) };
}

function turnOf(work: Work, wallet: Wallet): Turn {
  const [role, named] = (work.nextActor ?? '').split(' ');
  const isActor = named === undefined ? work.yourRoles?.includes(role!) : named === wallet.id;
  // A quorum has several evaluators, and none of them is named.
  const mayJudge = role === 'evaluator' && work.availableActions.includes('approve');
  return { work, wallet, isMine: !isOver(work) && (isActor === true || mayJudge) };
}

/** First the jobs that wait for an own wallet, by deadline; then those that wait for others; then those that ended. */
function compare(a: Turn, b: Turn): number {
  const rank = ({ isMine, work }: Turn) => (isMine ? 0 : isOver(work) ? 2 : 1);
  const deadline = ({ work }: Turn) =>
    isOver(work) ? 0 : Date.parse(work.deadline ?? '9999-01-01');
  return rank(a) - rank(b) || deadline(a) - deadline(b);
}
