// Amounts of money: operations take micro-units, people read and write units.
/** Micro-units as units: `2500000` is 2.50. */
export function units(micro: string): string {
  const digits = micro.padStart(7, '0');
  const decimals = digits.slice(-6).replace(/0{1,4}$/, '');
  return `${digits.slice(0, -6)}.${decimals}`;
}

/** Units as micro-units, or undefined if the text is no amount. */
export function microOf(text: string): string | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text.trim());
  if (!match) return undefined;
  return String(Number(match[1]) * 1_000_000 + Number((match[2] ?? '').padEnd(6, '0')));
}
