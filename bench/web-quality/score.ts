// Word F1 as the benchmark defines it: bags of lower-case words, overlap counted with multiplicity.

export interface Score {
  precision: number;
  recall: number;
  f1: number;
}

export function tokens(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
}

export function wordScore(predicted: string, truth: string): Score {
  return bagScore(tokens(predicted), tokens(truth));
}

function bagScore(predicted: readonly string[], truth: readonly string[]): Score {
  if (truth.length === 0) {
    const right = predicted.length === 0 ? 1 : 0;
    return { precision: right, recall: right, f1: right };
  }
  const counts = new Map<string, number>();
  for (const word of truth) counts.set(word, (counts.get(word) ?? 0) + 1);
  let overlap = 0;
  for (const word of predicted) {
    const left = counts.get(word) ?? 0;
    if (left === 0) continue;
    counts.set(word, left - 1);
    overlap++;
  }
  if (overlap === 0) return { precision: 0, recall: 0, f1: 0 };
  const precision = overlap / predicted.length;
  const recall = overlap / truth.length;
  return { precision, recall, f1: (2 * precision * recall) / (precision + recall) };
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((a, b) => a + b, 0) / values.length;
}
