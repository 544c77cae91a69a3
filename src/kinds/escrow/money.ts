// Amounts are integers in micro-units: parsing, limits and how a budget is divided. Pure.
// A JavaScript number is exact for integers up to 2^53; the limits below keep every sum inside that range.
import { AppError } from '../../errors.ts';
import { parseMicroUnits } from '../../runtime/decimal.ts';

export { formatUnits, microPerUnit } from '../../runtime/decimal.ts';

/** Largest amount of one transfer: one billion units. */
const maxAmountMicro = 1_000_000_000_000_000;
/** Largest supply of one ledger, so that no balance or sum leaves the exact range. */
export const maxSupplyMicro = 9_000_000_000_000_000;
const basisPoints = 10_000;
/** Upper limit for each fee, in basis points. */
export const maxFeeBps = 1000;

/** Parses `"2500000"`: a positive whole number of micro-units, as text or as an integer. Rejects everything else. */
export function parseMicro(value: unknown, field: string): number {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string' || !/^[1-9]\d{0,15}$/.test(text) || Number(text) > maxAmountMicro) {
    throw new AppError(
      'invalidAmount',
      `${field} must be a whole number of micro-units from 1 to ${maxAmountMicro}, without sign, decimal point or exponent.`,
      { hint: 'One unit is 1000000 micro-units: "2500000" is 2.50.', data: { field } },
    );
  }
  return Number(text);
}

/** Parses `"2.50"`: a positive decimal number of units with at most six decimal places, as text. */
export function parseUnits(value: unknown, field: string): number {
  const micro = (typeof value === 'string' ? parseMicroUnits(value) : undefined) ?? 0;
  if (micro <= 0 || micro > maxAmountMicro) {
    throw new AppError(
      'invalidAmount',
      `${field} must be a positive decimal number as text with at most 6 decimal places.`,
      { hint: 'Write "2.50" for two and a half units.', data: { field } },
    );
  }
  return micro;
}

export interface Fees {
  platformBps: number;
  evaluatorBps: number;
}

interface Shares {
  provider: number;
  evaluator: number;
  platform: number;
}

/** Rounds each fee down and gives the remainder to the provider, so the shares always sum to the amount. */
export function divide(amount: number, fees: Fees): Shares {
  const platform = share(amount, fees.platformBps);
  const evaluator = share(amount, fees.evaluatorBps);
  return { platform, evaluator, provider: amount - platform - evaluator };
}

/** floor(amount × bps / 10000), computed without the intermediate amount × bps, which could exceed the exact range. */
export function share(amount: number, bps: number): number {
  return Number((BigInt(amount) * BigInt(bps)) / BigInt(basisPoints));
}
