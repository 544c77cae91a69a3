// Money as integers in micro-units: parsing, limits and how a budget is divided. Pure.
// A JavaScript number holds every integer up to 2^53 exactly; the caps below keep every sum inside that.
import { AppError } from '../../errors.ts';
import { microOfUnits } from '../../runtime/decimal.ts';

export { formatUnits, microPerUnit } from '../../runtime/decimal.ts';

/** The most one transfer may move: one billion units. */
const amountMicroMax = 1_000_000_000_000_000;
/** The most that may ever be minted into one ledger, so that no balance or sum leaves the exact range. */
export const supplyMicroMax = 9_000_000_000_000_000;
const basisPoints = 10_000;
/** Platform and evaluator together may never take more than this. */
export const feeBpsMax = 1000;

/** `"2500000"`: a positive whole number of micro-units, as text or as an integer. Nothing else is money. */
export function parseMicro(value: unknown, field: string): number {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string' || !/^[1-9]\d{0,15}$/.test(text) || Number(text) > amountMicroMax) {
    throw new AppError(
      'invalidAmount',
      `${field} must be a whole number of micro-units from 1 to ${amountMicroMax}, without sign, point or exponent.`,
      { hint: 'One unit is 1000000 micro-units: "2500000" is 2.50.', data: { field } },
    );
  }
  return Number(text);
}

/** `"2.50"`: a positive decimal number of units with at most six digits after the point, as text. */
export function parseUnits(value: unknown, field: string): number {
  const micro = (typeof value === 'string' ? microOfUnits(value) : undefined) ?? 0;
  if (micro <= 0 || micro > amountMicroMax) {
    throw new AppError(
      'invalidAmount',
      `${field} must be a positive decimal number as text with at most 6 digits after the point.`,
      { hint: 'Write "2.50" for two and a half units.', data: { field } },
    );
  }
  return micro;
}

export interface Fees {
  platformBps: number;
  evaluatorBps: number;
}

export interface Shares {
  provider: number;
  evaluator: number;
  platform: number;
}

/** Floors each fee and gives the remainder to the provider: the parts always sum to the amount. */
export function divide(amount: number, fees: Fees): Shares {
  const platform = share(amount, fees.platformBps);
  const evaluator = share(amount, fees.evaluatorBps);
  return { platform, evaluator, provider: amount - platform - evaluator };
}

/** floor(amount × bps / 10000) without leaving the exact range: amount × bps alone could. */
export function share(amount: number, bps: number): number {
  return Number((BigInt(amount) * BigInt(bps)) / BigInt(basisPoints));
}
