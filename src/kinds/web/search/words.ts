// Splits text into words, the same way for both databases and for passage ranking: lower case, no accents.
// Scripts without spaces are split into single characters.

const plain = /^[\0-\x7f]*$/;
const accents = /[\u0300-\u036f]/g;
/** Thai, Lao, Myanmar, Khmer, kana, and Chinese and Japanese characters. */
const unspaced =
  '\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}';
const sign = new RegExp(`^[${unspaced}]`, 'u');
const letter = '[\\p{L}\\p{N}\\p{M}]';
const word = new RegExp(`[[${unspaced}]&&${letter}]|[${letter}--[${unspaced}]]+`, 'gv');
const asciiWord = /[a-z0-9]+/g;
/** Longer strings are not words, and a database may reject them. */
const maxWordChars = 60;

export function wordsOf(text: string): string[] {
  const words = plain.test(text)
    ? text.toLowerCase().match(asciiWord)
    : text.normalize('NFKD').replaceAll(accents, '').normalize('NFC').toLowerCase().match(word);
  return (words ?? []).filter(({ length }) => length <= maxWordChars);
}

/**
 * Splits text into ranking terms. Adjacent characters of scripts without spaces form pairs, because a single
 * one is too common.
 */
export function termsOf(text: string): string[] {
  const words = wordsOf(text);
  return words.flatMap((one, i) => {
    if (!isSign(one)) return one.length > 1 ? [one] : [];
    const next = words[i + 1];
    if (next !== undefined && isSign(next)) return [one + next];
    return i > 0 && isSign(words[i - 1]!) ? [] : [one];
  });
}

const isSign = (text: string): boolean => sign.test(text);
