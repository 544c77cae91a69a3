// The learned part of main-content detection: two forests and a lexicon, trained by
// bench/web-quality/train.ts and kept in model.json. Scores are probabilities that a block is
// main content.
import { withContext } from './context.ts';
import type { Segments } from './blocks.ts';
import { features } from './features.ts';
import type { Lexicon } from './lexicon.ts';
import table from './model.json' with { type: 'json' };
import type { PageSigns } from './signs.ts';
import { Forest, type ForestTable } from './trees.ts';

export interface ModelTable {
  /** word=weight in hundredths, with semicolons between. */
  lexicon: { near: string; far: string; text: string };
  first: ForestTable;
  second: ForestTable;
}

export class Model {
  private readonly lexicon: Lexicon;
  private readonly first: Forest;
  private readonly second: Forest;

  constructor({ lexicon, first, second }: ModelTable) {
    this.lexicon = {
      near: weights(lexicon.near),
      far: weights(lexicon.far),
      text: weights(lexicon.text),
    };
    this.first = new Forest(first);
    this.second = new Forest(second);
  }

  score(segments: Segments, signs: PageSigns): Float32Array {
    const count = segments.blocks.length;
    const rows = features(segments, signs, this.lexicon);
    const first = this.first.predict(rows, count);
    const second = this.second.predict(withContext(segments, rows, first), count);
    // The mean of both looks errs less than either.
    return second.map((value, i) => (value + first[i]!) / 2);
  }
}

function weights(text: string): Map<string, number> {
  return new Map(
    text.split(';').map((entry) => {
      const at = entry.lastIndexOf('=');
      return [entry.slice(0, at), Number(entry.slice(at + 1)) / 100];
    }),
  );
}

let loaded: Model | undefined;

export function defaultModel(): Model {
  loaded ??= new Model(table);
  return loaded;
}
