// Amounts of money as people write them and as integers of micro-units. Pure.

export const microPerUnit = 1_000_000;

/** `2.50` → 2500000: at most ten digits before the point and six after it; undefined for anything else. */
export function microOfUnits(text: string): number | undefined {
  const match = /^(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * microPerUnit + Number((match[2] ?? '').padEnd(6, '0'));
}

/** 2500000 → "2.50": at least two digits after the point, no more than needed. */
export function formatUnits(micro: number): string {
  const sign = micro < 0 ? '-' : '';
  const whole = Math.floor(Math.abs(micro) / microPerUnit);
  const rest = String(Math.abs(micro) % microPerUnit).padStart(6, '0');
  return `${sign}${whole}.${rest.slice(0, 2)}${rest.slice(2).replace(/0+$/, '')}`;
}
