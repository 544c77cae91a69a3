// What a wallet may spend: frozen, expired, limits per transfer and per UTC day, allow-list, balance. Pure, decided on the
// wallet as it was read; the transfer's fence makes sure that it still is so.
import { AppError } from '../../errors.ts';
import { formatUnits } from './money.ts';
import type { Spender } from './rows.ts';

export interface Spend {
  /** Everything that leaves the wallet, fees included. */
  amount: number;
  payee: string;
  now: number;
}

/** Refuses with the one reason that applies first; else answers the day's spending after this. */
export function spending(wallet: Spender, spend: Spend): { day: string; spent: number } {
  refuseInactive(wallet, spend.now);
  const { policy } = wallet;
  if (policy.allowlist.length > 0 && !policy.allowlist.includes(spend.payee)) {
    throw refusal('notInAllowlist', `${spend.payee} is not on the allow-list of the wallet.`);
  }
  refuseAboveLimits(wallet, spend.amount);
  const day = new Date(spend.now).toISOString().slice(0, 10);
  const spent = (wallet.day === day ? wallet.spent : 0) + spend.amount;
  if (policy.dailyLimit !== null && spent > policy.dailyLimit) {
    throw refusal(
      'dailyLimitExceeded',
      `This would bring the day's spending to ${formatUnits(spent)}; the limit is ${formatUnits(policy.dailyLimit)} per UTC day.`,
    );
  }
  if (spend.amount > wallet.balance) {
    throw new AppError(
      'insufficientBalance',
      `The wallet has ${formatUnits(wallet.balance)} and this needs ${formatUnits(spend.amount)}.`,
      {
        hint: 'Lower the amount, or get more: credit from the operator (`errand wallet mint`), on a chain tokens.',
        data: { balance: String(wallet.balance), needed: String(spend.amount) },
      },
    );
  }
  return { day, spent };
}

/** An amount that this wallet could not spend on any day. */
export function refuseAboveLimits({ policy }: Spender, amount: number): void {
  if (policy.txLimit !== null && amount > policy.txLimit) {
    throw refusal(
      'txLimitExceeded',
      `${formatUnits(amount)} is more than the wallet may spend per transaction (${formatUnits(policy.txLimit)}).`,
    );
  }
  if (policy.dailyLimit !== null && amount > policy.dailyLimit) {
    throw refusal(
      'dailyLimitExceeded',
      `${formatUnits(amount)} is more than the wallet may spend per UTC day (${formatUnits(policy.dailyLimit)}).`,
    );
  }
}

/** Stopped by its owner or by its own end; money still reaches it. */
export const isActive = (wallet: Spender, now: number): boolean =>
  wallet.status === 'active' && (wallet.policy.expiresAt === null || wallet.policy.expiresAt > now);

export function refuseInactive(wallet: Spender, now: number): void {
  if (wallet.status === 'pending') {
    throw refusal(
      'walletNotActive',
      `The wallet ${wallet.id} has no owner yet.`,
      'Claim it first.',
    );
  }
  if (wallet.status === 'frozen') {
    throw refusal(
      'walletFrozen',
      `The wallet ${wallet.id} is frozen.`,
      'Its owner can unfreeze it.',
    );
  }
  if (wallet.policy.expiresAt !== null && wallet.policy.expiresAt <= now) {
    throw refusal('walletExpired', `The wallet ${wallet.id} has expired.`);
  }
}

function refusal(code: string, message: string, hint?: string): AppError {
  return new AppError(code, message, {
    hint: hint ?? 'The owner of the wallet can change its limits (update_wallet).',
  });
}
