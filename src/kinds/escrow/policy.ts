// What a wallet may spend: status, expiry, limits per transfer and per UTC day, allowlist, balance. Pure: it decides on
// the wallet as it was read; the transfer's version check guarantees that nothing changed since.
import { AppError } from '../../errors.ts';
import { formatUnits } from './money.ts';
import type { Spender } from './store/rows.ts';

interface Spend {
  /** Everything that leaves the wallet, including fees. */
  amount: number;
  payee: string;
  now: number;
}

/** Throws the first reason that applies; otherwise returns the day's spending after this payment. */
export function spending(wallet: Spender, spend: Spend): { day: string; spent: number } {
  refuseInactive(wallet, spend.now);
  const { policy } = wallet;
  if (policy.allowlist.length > 0 && !policy.allowlist.includes(spend.payee)) {
    throw refusal('notInAllowlist', `${spend.payee} is not on the wallet's allowlist.`);
  }
  refuseAboveLimits(wallet, spend.amount);
  const day = new Date(spend.now).toISOString().slice(0, 10);
  const spent = (wallet.day === day ? wallet.spent : 0) + spend.amount;
  if (policy.dailyLimit !== null && spent > policy.dailyLimit) {
    throw refusal(
      'dailyLimitExceeded',
      `This would raise the day's spending to ${formatUnits(spent)}; the limit is ${formatUnits(policy.dailyLimit)} per UTC day.`,
    );
  }
  if (spend.amount > wallet.balance) {
    throw new AppError(
      'insufficientBalance',
      `The wallet has ${formatUnits(wallet.balance)}, but this needs ${formatUnits(spend.amount)}.`,
      {
        hint: 'Lower the amount, or add credit: the operator mints it (`errand wallet mint`); on a chain, send tokens to the wallet.',
        data: { balance: String(wallet.balance), needed: String(spend.amount) },
      },
    );
  }
  return { day, spent };
}

/** Refuses an amount that exceeds the wallet's limits on any day. */
export function refuseAboveLimits({ policy }: Spender, amount: number): void {
  if (policy.txLimit !== null && amount > policy.txLimit) {
    throw refusal(
      'txLimitExceeded',
      `${formatUnits(amount)} exceeds the wallet's limit per transaction (${formatUnits(policy.txLimit)}).`,
    );
  }
  if (policy.dailyLimit !== null && amount > policy.dailyLimit) {
    throw refusal(
      'dailyLimitExceeded',
      `${formatUnits(amount)} exceeds the wallet's limit per UTC day (${formatUnits(policy.dailyLimit)}).`,
    );
  }
}

/** False once the owner froze the wallet or it expired. It can still receive money. */
export const isActive = (wallet: Spender, now: number): boolean =>
  wallet.status === 'active' && (wallet.policy.expiresAt === null || wallet.policy.expiresAt > now);

export function refuseInactive(wallet: Spender, now: number): void {
  if (wallet.status === 'pending') {
    throw refusal(
      'walletNotActive',
      `Wallet ${wallet.id} has no owner yet.`,
      'Claim it first (claim_wallet).',
    );
  }
  if (wallet.status === 'frozen') {
    throw refusal(
      'walletFrozen',
      `Wallet ${wallet.id} is frozen.`,
      'Its owner can unfreeze it (update_wallet).',
    );
  }
  if (wallet.policy.expiresAt !== null && wallet.policy.expiresAt <= now) {
    throw refusal('walletExpired', `Wallet ${wallet.id} has expired.`);
  }
}

function refusal(code: string, message: string, hint?: string): AppError {
  return new AppError(code, message, {
    hint: hint ?? 'The wallet owner can change its limits (update_wallet).',
  });
}
