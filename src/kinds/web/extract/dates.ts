// Parses unambiguous dates only: ISO 8601, and English dates with the month in letters. 04/03/2026 is
// ambiguous.
const months = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const month = String.raw`(${months.join('|')})[a-z]*\.?`;
const day = String.raw`(\d{1,2})(?:st|nd|rd|th)?`;
const weekday = String.raw`(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?`;
const monthFirst = new RegExp(String.raw`^${weekday}${month}\s+${day},?\s+(\d{4})$`, 'i');
const dayFirst = new RegExp(String.raw`^${weekday}${day}\.?\s+${month},?\s+(\d{4})$`, 'i');

export function parseDate(text: string): string | undefined {
  const iso = /^\d{4}-\d{2}-\d{2}(?!\d)/.exec(text)?.[0];
  if (iso !== undefined) return iso;
  const [, a, b, year] = monthFirst.exec(text) ?? dayFirst.exec(text) ?? [];
  if (a === undefined || b === undefined) return undefined;
  const [name, number] = /^\d/.test(a) ? [b, a] : [a, b];
  const index = months.indexOf(name.toLowerCase()) + 1;
  return `${year}-${String(index).padStart(2, '0')}-${number.padStart(2, '0')}`;
}

export function parseDateTime(text: string): string | undefined {
  return /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/i.test(text) ? text : undefined;
}
