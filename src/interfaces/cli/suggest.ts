// "Did you mean …": finds the known words closest to a mistyped one.

const maxSuggestions = 3;

/** Returns the closest words first, or an empty list. */
export function closestWords(typed: string, known: readonly string[]): string[] {
  const word = typed.toLowerCase();
  const limit = Math.max(1, Math.floor(word.length / 3));
  const scored = [...new Set(known)].flatMap((candidate) => {
    const score = scoreOf(word, candidate.toLowerCase(), limit);
    return score === undefined ? [] : [{ candidate, score }];
  });
  const best = Math.min(...scored.map(({ score }) => score));
  return scored
    .filter(({ score }) => score <= best + 1)
    .toSorted((a, b) => a.score - b.score)
    .slice(0, maxSuggestions)
    .map(({ candidate }) => candidate);
}

export function didYouMean(words: readonly string[]): string | undefined {
  if (words.length === 0) return undefined;
  const last = words.at(-1)!;
  return words.length === 1
    ? `Did you mean ${last}?`
    : `Did you mean ${words.slice(0, -1).join(', ')} or ${last}?`;
}

function scoreOf(word: string, candidate: string, limit: number): number | undefined {
  const edits = editDistance(word, candidate);
  if (edits <= limit) return edits;
  const isPart = word.length > 1 && (candidate.startsWith(word) || word.startsWith(candidate));
  return isPart && candidate.length > 1 ? limit + 1 : undefined;
}

/** Counts insertions, deletions, replacements and transpositions. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, rows[i - 2]![j - 2]! + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
