// Builds PostgreSQL text vectors: words with positions. Built here because the PostgreSQL parser splits words
// differently.

/** PostgreSQL limits: positions have 14 bits, and a word has at most 255 positions. */
const maxPosition = 16_383;
const maxPositionsPerWord = 255;

export function tsVector(title: readonly string[], body: readonly string[]): string {
  const positions = new Map<string, string[]>();
  const add = (word: string, position: number, weight: string) => {
    const known = positions.get(word);
    const text = `${Math.min(position, maxPosition)}${weight}`;
    if (!known) positions.set(word, [text]);
    else if (known.length < maxPositionsPerWord) known.push(text);
  };
  title.forEach((word, i) => add(word, i + 1, 'A'));
  // The gap prevents phrases from matching across the title and the text.
  body.forEach((word, i) => add(word, title.length + i + 3, ''));
  return [...positions].map(([word, list]) => `'${word}':${list.join(',')}`).join(' ');
}
