// The learned part of main-content detection: a forest and a lexicon, trained by
// bench/web-quality/train.ts and kept in model.json. Scores are probabilities that a block is main
// content.
import type { Segments } from './blocks.ts';
import { describe, withLexicon } from './features.ts';
import type { Lexicon } from './lexicon.ts';
import table from './model.json' with { type: 'json' };
import type { PageSigns } from './signs.ts';
import { Forest, type ForestTable } from './trees.ts';

export interface ModelTable {
  /** word=weight in hundredths, with semicolons between. */
  lexicon: { near: string; far: string; text: string };
  forest: ForestTable;
}

export class Model {
  private readonly lexicon: Lexicon;
  private readonly forest: Forest;

  constructor({ lexicon, forest }: ModelTable) {
    this.lexicon = {
      near: weights(lexicon.near),
      far: weights(lexicon.far),
      text: weights(lexicon.text),
    };
    this.forest = new Forest(forest);
  }

  score(segments: Segments, signs: PageSigns): Float32Array {
    const rows = withLexicon(describe(segments, signs), this.lexicon);
    return this.forest.predict(rows, segments.blocks.length);
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
