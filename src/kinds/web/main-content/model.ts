// The trained model of main-content detection: a forest and a lexicon, trained by bench/web-quality/train.ts
// and stored in model.json. A score is the probability that a block is main content.
import { pathName, type Block, type Segments } from './blocks.ts';
import { describeBlocks, withLexicon } from './features.ts';
import type { Lexicon } from './lexicon.ts';
import table from './model.json' with { type: 'json' };
import type { PageSignals } from './signals.ts';
import { Forest, type ForestTable } from './trees.ts';

export interface ModelTable {
  /** word=weight pairs, weights in hundredths, separated by semicolons. */
  lexicon: { near: string; far: string; text: string };
  forest: ForestTable;
}

class Model {
  private readonly lexicon: Lexicon;
  private readonly forest: Forest;

  constructor({ lexicon, forest }: ModelTable) {
    this.lexicon = {
      near: parseWeights(lexicon.near),
      far: parseWeights(lexicon.far),
      text: parseWeights(lexicon.text),
    };
    this.forest = new Forest(forest);
  }

  score(segments: Segments, signals: PageSignals): Float32Array {
    const { blocks } = segments;
    if (blocks.length <= maxScored) return this.scoreBlocks(segments, signals, blocks);
    return this.scoreSome(segments, signals);
  }

  private scoreBlocks(segments: Segments, signals: PageSignals, blocks: readonly Block[]) {
    const rows = withLexicon(describeBlocks(segments, signals, blocks), this.lexicon);
    return this.forest.predict(rows, blocks.length);
  }

  /**
   * On a page with very many blocks, only samples of each kin are scored, and the others get the sample's
   * score.
   */
  private scoreSome(segments: Segments, signals: PageSignals): Float32Array {
    const { blocks } = segments;
    const kin = [...Map.groupBy(blocks, ({ ancestor }) => pathName(ancestor)).values()];
    const share = Math.max(1, Math.floor(maxScored / kin.length));
    const samples = kin.map((list) => sampleEvenly(list, share));
    const found = this.scoreBlocks(segments, signals, samples.flat());
    const scores = new Float32Array(blocks.length);
    let at = 0;
    kin.forEach((list, i) => {
      const count = samples[i]!.length;
      list.forEach(({ index }, k) => {
        scores[index] = found[at + Math.floor((k * count) / list.length)]!;
      });
      at += count;
    });
    return scores;
  }
}

/** Above this number, blocks are sampled, because the time per page is limited. */
const maxScored = 6000;

function sampleEvenly<T>(list: readonly T[], count: number): readonly T[] {
  if (list.length <= count) return list;
  return Array.from({ length: count }, (_, i) => list[Math.floor((i * list.length) / count)]!);
}

function parseWeights(text: string): Map<string, number> {
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
