// Learns the lexicon by logistic regression with strong regularization: one weight per word in class
// and id names and in short texts. A word must occur on several sites, so that the vocabulary of a
// single site is not learned.
import type { Block, Ancestor } from '../../src/kinds/web/main-content/blocks.ts';
import {
  farLevels,
  nameWords,
  nearLevels,
  textWords,
  type Lexicon,
} from '../../src/kinds/web/main-content/lexicon.ts';
import { random } from './boost.ts';

export interface WordRow {
  tokens: Int32Array;
  label: number;
  weight: number;
}

const minSites = 4;
const epochs = 6;
const rate = 0.15;
const decay = 0.002;
const minWeight = 0.04;

/** Tokens of a block, prefixed with their origin. */
export function blockTokens(block: Block): string[] {
  const tokens: string[] = [];
  let at: Ancestor | undefined = block.ancestor;
  for (let level = 0; at && level < farLevels; level++) {
    const prefix = level < nearLevels ? 'n' : 'f';
    for (const word of nameWords(at)) tokens.push(`${prefix}:${word}`);
    at = at.parent;
  }
  for (const word of textWords(block)) tokens.push(`t:${word}`);
  return tokens;
}

export class Vocabulary {
  private readonly ids = new Map<string, number>();
  private readonly names: string[] = [];
  private readonly sites: Set<string>[] = [];

  id(token: string, site: string): number {
    let id = this.ids.get(token);
    if (id === undefined) {
      id = this.names.length;
      this.ids.set(token, id);
      this.names.push(token);
      this.sites.push(new Set());
    }
    this.sites[id]!.add(site);
    return id;
  }

  learn(rows: readonly WordRow[], allowed: ReadonlySet<string>): Lexicon {
    const usable = this.sites.map((sites) => {
      let seen = 0;
      for (const site of sites) if (allowed.has(site)) seen++;
      return seen >= minSites;
    });
    const weights = new Float64Array(this.names.length);
    const squares = new Float64Array(this.names.length).fill(1e-3);
    let bias = 0;
    const next = random(7);
    const order = Uint32Array.from(rows, (_, i) => i);
    for (let epoch = 0; epoch < epochs; epoch++) {
      shuffle(order, next);
      for (const index of order) {
        const row = rows[index]!;
        let sum = bias;
        for (const token of row.tokens) sum += weights[token]!;
        const error = (1 / (1 + Math.exp(-sum)) - row.label) * row.weight;
        bias -= 0.01 * error;
        for (const token of row.tokens) {
          if (!usable[token]) continue;
          const gradient = error + decay * weights[token]!;
          squares[token]! += gradient * gradient;
          weights[token]! -= (rate * gradient) / Math.sqrt(squares[token]!);
        }
      }
    }
    return this.lexicon(weights);
  }

  private lexicon(weights: Float64Array): Lexicon {
    const tables = {
      n: new Map<string, number>(),
      f: new Map<string, number>(),
      t: new Map<string, number>(),
    };
    this.names.forEach((name, id) => {
      const weight = Math.round(weights[id]! * 100) / 100;
      if (Math.abs(weight) < minWeight) return;
      tables[name[0] as 'n' | 'f' | 't'].set(name.slice(2), weight);
    });
    return { near: tables.n, far: tables.f, text: tables.t };
  }
}

function shuffle(order: Uint32Array, next: () => number): void {
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    const kept = order[i]!;
    order[i] = order[j]!;
    order[j] = kept;
  }
}
