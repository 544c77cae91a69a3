// What a word is, the same for both databases and for whoever ranks passages: small letters without accents; scripts that
// write without spaces are taken sign by sign.

const accents = /[\u0300-\u036f]/g;
const unspaced =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Mymr}]/gu;
const word = /[\p{L}\p{N}\p{M}]+/gu;
/** Longer ones are no words, and a database may refuse them. */
const wordCharsMax = 60;

export function wordsOf(text: string): string[] {
  const plain = text.normalize('NFKD').replaceAll(accents, '').normalize('NFC').toLowerCase();
  const words = plain.replaceAll(unspaced, ' $& ').match(word) ?? [];
  return words.filter(({ length }) => length <= wordCharsMax);
}

/** Signs that stand together count as pairs: one alone says little. */
export function termsOf(text: string): string[] {
  const words = wordsOf(text);
  return words.flatMap((one, i) => {
    if (!isSign(one)) return one.length > 1 ? [one] : [];
    const next = words[i + 1];
    if (next !== undefined && isSign(next)) return [one + next];
    return i > 0 && isSign(words[i - 1]!) ? [] : [one];
  });
}

const isSign = (text: string): boolean => text.search(unspaced) === 0;
