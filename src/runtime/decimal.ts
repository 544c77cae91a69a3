// Converts money amounts between decimal text and integer micro-units.

export const microPerUnit = 1_000_000;

/** `2.50` → 2500000. Accepts up to ten digits before the point and six after it; returns undefined for anything else. */
export function parseMicroUnits(text: string): number | undefined {
  const match = /^(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * microPerUnit + Number((match[2] ?? '').padEnd(6, '0'));
}

/** 2500000 → "2.50": at least two digits after the point. */
export function formatUnits(micro: number): string {
  const sign = micro < 0 ? '-' : '';
  const whole = Math.floor(Math.abs(micro) / microPerUnit);
  const rest = String(Math.abs(micro) % microPerUnit).padStart(6, '0');
  return `${sign}${whole}.${rest.slice(0, 2)}${rest.slice(2).replace(/0+$/, '')}`;
}
