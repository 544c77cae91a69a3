// Words with their places as PostgreSQL keeps them. Made here, because its own parser has another opinion of what a word is.

/** What it can hold: places are numbers of 14 bits, and so many of one word. */
const placeMax = 16_383;
const placesMax = 255;

export function tsVector(title: readonly string[], body: readonly string[]): string {
  const places = new Map<string, string[]>();
  const put = (word: string, place: number, weight: string) => {
    const known = places.get(word);
    const text = `${Math.min(place, placeMax)}${weight}`;
    if (!known) places.set(word, [text]);
    else if (known.length < placesMax) known.push(text);
  };
  title.forEach((word, i) => put(word, i + 1, 'A'));
  // No phrase goes on from the title into the text.
  body.forEach((word, i) => put(word, title.length + i + 3, ''));
  return [...places].map(([word, list]) => `'${word}':${list.join(',')}`).join(' ');
}
