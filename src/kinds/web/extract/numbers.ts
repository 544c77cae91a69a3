// Parses numbers as people write them: "1.299,00 €", "CHF 1'299.50", "₹1,23,456". Ambiguous text ("1.299 €")
// and text that only looks like a number ("1.2.3", "12.03.2026", "ab 10") is rejected instead of guessed.

const currencies = new Set(Intl.supportedValuesOf('currency'));
const sign = String.raw`[-−+]?`;
const words = String.raw`kr\.?|Kč|zł|Ft|lei|Rs\.?|RM|Fr\.?`;
const before = String.raw`(?:([A-Z]{3})|([A-Z]{0,2}\p{Sc}|${words}))?`;
const behind = String.raw`(?:([A-Z]{3})|(\p{Sc}|${words})|%)?`;
const amount = new RegExp(
  String.raw`^(${sign})\s*${before}\s*(${sign})(\d[\d.,\s'’]*?)(?:[.,][-–])?\s*${behind}$`,
  'u',
);

export function parseNumber(text: string): number | undefined {
  const match = amount.exec(text.trim());
  if (!match) return undefined;
  const [, first, codeBefore, markBefore, second, digits, codeBehind, markBehind] = match;
  const codes = [codeBefore, codeBehind].filter((code) => code !== undefined);
  if ((first && second) || !codes.every((code) => currencies.has(code))) return undefined;
  const isPrice = codes.length > 0 || markBefore !== undefined || markBehind !== undefined;
  const value = parseDecimal(digits!.replace(/\s/g, ' ').replace(/’/g, "'").trim(), isPrice);
  return value !== undefined && /[-−]/.test(`${first}${second}`) ? -value : value;
}

/** The last point or comma is the decimal separator, unless it occurs more than once or groups digits. */
function parseDecimal(digits: string, isPrice: boolean): number | undefined {
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','));
  if (last < 0) return parseGrouped(digits);
  const mark = digits[last]!;
  const [whole, tail] = [digits.slice(0, last), digits.slice(last + 1)];
  if (!/^\d*$/.test(tail) || digits.indexOf(mark) < last) return parseGrouped(digits);
  if (tail.length === 3 && /^[1-9]\d{0,2}$/.test(whole)) {
    if (mark === ',') return parseGrouped(digits);
    // 1.299 is a decimal number as a measurement; as a price, it may also be 1299.
    if (isPrice) return undefined;
  }
  const value = parseGrouped(whole);
  return value === undefined ? undefined : Number(`${value}.${tail}`);
}

const plain = /^\d+$/;
const inThousands = /^[1-9]\d{0,2}([.,' ])\d{3}(?:\1\d{3})*$/;
const inLakhs = /^[1-9]\d?(?:,\d{2})+,\d{3}$/;

function parseGrouped(digits: string): number | undefined {
  if (![plain, inThousands, inLakhs].some((form) => form.test(digits))) return undefined;
  return Number(digits.replace(/\D/g, ''));
}
