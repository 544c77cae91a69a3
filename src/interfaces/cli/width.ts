// Terminal width of text: wide characters occupy two columns, combining marks none.

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
const zeroWidth = /\p{Mn}|\p{Me}|\p{Cf}/u;
const plain = /^[\u0020-\u02ff]*$/;

const widthOf = (character: string): number =>
  zeroWidth.test(character) ? 0 : wide.test(character) ? 2 : 1;

export function textWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOf(character);
  return width;
}

/** Pads or truncates the text to exactly `columns` columns. */
export function fitToWidth(text: string, columns: number): string {
  const width = textWidth(text);
  if (width <= columns) return text + ' '.repeat(columns - width);
  let kept = '';
  let taken = 0;
  for (const character of text) {
    const next = widthOf(character);
    if (taken + next > columns - 1) break;
    kept += character;
    taken += next;
  }
  return `${kept}…${' '.repeat(columns - taken - 1)}`;
}
