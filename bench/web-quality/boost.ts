// Gradient boosting of shallow trees for soft labels, for the tables in src/kinds/web/main-content/trees.ts.
// Deterministic: the same rows and options produce the same forest.
import type { ForestTable } from '../../src/kinds/web/main-content/trees.ts';

export interface BoostOptions {
  trees: number;
  depth: number;
  rate: number;
  /**
   * L2 penalty on leaf values, and the minimum weight of a leaf. Both prevent overfitting to single
   * pages.
   */
  lambda: number;
  minLeaf: number;
  rowShare: number;
  columnShare: number;
  seed: number;
}

export interface Rows {
  values: Float32Array;
  columns: number;
  labels: Float32Array;
  weights: Float32Array;
}

const maxBins = 64;

export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function boost(rows: Rows, options: BoostOptions): ForestTable {
  return new Booster(rows, options).run();
}

class Booster {
  private readonly rows: Rows;
  private readonly options: BoostOptions;
  private readonly count: number;
  private readonly borders: number[][];
  private readonly bins: Uint8Array[];
  private readonly sums: Float32Array;
  private readonly gradient: Float32Array;
  private readonly hessian: Float32Array;
  private readonly nodeOf: Uint16Array;
  private readonly next: () => number;

  constructor(rows: Rows, options: BoostOptions) {
    this.rows = rows;
    this.options = options;
    this.count = rows.labels.length;
    this.borders = [];
    this.bins = [];
    for (let column = 0; column < rows.columns; column++) {
      const borders = quantileBorders(rows, column);
      this.borders.push(borders);
      this.bins.push(binned(rows, column, borders));
    }
    this.sums = new Float32Array(this.count);
    this.gradient = new Float32Array(this.count);
    this.hessian = new Float32Array(this.count);
    this.nodeOf = new Uint16Array(this.count);
    this.next = random(options.seed);
  }

  run(): ForestTable {
    const { trees, depth } = this.options;
    const bias = this.startValue();
    this.sums.fill(bias);
    const nodes = new Uint8Array(trees * ((1 << depth) - 1) * 2);
    const values = new Float32Array(trees * (1 << depth));
    for (let tree = 0; tree < trees; tree++) {
      this.grow(
        nodes.subarray(tree * ((1 << depth) - 1) * 2),
        values.subarray(tree << depth, (tree + 1) << depth),
      );
    }
    let most = 1e-6;
    for (const value of values) most = Math.max(most, Math.abs(value));
    const unit = most / 127;
    const leaves = Int8Array.from(values, (value) => Math.round(value / unit));
    return {
      depth,
      trees,
      bias,
      unit,
      borders: this.borders.map((column) =>
        column.map((value) => Number(value.toPrecision(5))).join(' '),
      ),
      nodes: Buffer.from(nodes).toString('base64'),
      leaves: Buffer.from(leaves.buffer).toString('base64'),
    };
  }

  private startValue(): number {
    let sum = 0;
    let weight = 0;
    for (let i = 0; i < this.count; i++) {
      sum += this.rows.labels[i]! * this.rows.weights[i]!;
      weight += this.rows.weights[i]!;
    }
    return Math.log(sum / (weight - sum));
  }

  private grow(nodes: Uint8Array, values: Float32Array): void {
    const { depth, rowShare, columnShare, rate, lambda } = this.options;
    this.refresh();
    const bag: number[] = [];
    for (let i = 0; i < this.count; i++) if (this.next() < rowShare) bag.push(i);
    const rows = Uint32Array.from(bag);
    const columns: number[] = [];
    for (let c = 0; c < this.rows.columns; c++) {
      if (this.borders[c]!.length > 0 && this.next() < columnShare) columns.push(c);
    }
    this.nodeOf.fill(0);
    for (let level = 0; level < depth; level++) {
      const splits = this.splits(rows, columns, 1 << level);
      const first = (1 << level) - 1;
      splits.forEach((split, node) => {
        nodes[2 * (first + node)] = split?.column ?? 255;
        nodes[2 * (first + node) + 1] = split?.border ?? 0;
      });
      this.divide(splits);
    }
    const leafGradient = new Float64Array(1 << depth);
    const leafHessian = new Float64Array(1 << depth);
    for (const row of rows) {
      leafGradient[this.nodeOf[row]!]! += this.gradient[row]!;
      leafHessian[this.nodeOf[row]!]! += this.hessian[row]!;
    }
    for (let leaf = 0; leaf < values.length; leaf++) {
      values[leaf] = (-rate * leafGradient[leaf]!) / (leafHessian[leaf]! + lambda);
    }
    for (let i = 0; i < this.count; i++) this.sums[i]! += values[this.nodeOf[i]!]!;
  }

  private refresh(): void {
    const { labels, weights } = this.rows;
    for (let i = 0; i < this.count; i++) {
      const p = 1 / (1 + Math.exp(-this.sums[i]!));
      this.gradient[i] = (p - labels[i]!) * weights[i]!;
      this.hessian[i] = Math.max(p * (1 - p), 1e-6) * weights[i]!;
    }
  }

  private splits(rows: Uint32Array, columns: number[], count: number): (Split | undefined)[] {
    const best: (Split | undefined)[] = Array.from({ length: count }, () => undefined);
    const histogram = new Float64Array(count * maxBins * 2);
    for (const column of columns) {
      histogram.fill(0);
      const bins = this.bins[column]!;
      const { nodeOf, gradient, hessian } = this;
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i]!;
        const at = (nodeOf[row]! * maxBins + bins[row]!) * 2;
        histogram[at]! += gradient[row]!;
        histogram[at + 1]! += hessian[row]!;
      }
      for (let node = 0; node < count; node++) {
        const split = this.bestBorder(histogram, node, column);
        if (split && split.gain > (best[node]?.gain ?? 0)) best[node] = split;
      }
    }
    return best;
  }

  private bestBorder(histogram: Float64Array, node: number, column: number): Split | undefined {
    const { lambda, minLeaf } = this.options;
    const base = node * maxBins * 2;
    const borders = this.borders[column]!.length;
    let g = 0;
    let h = 0;
    for (let bin = 0; bin <= borders; bin++) {
      g += histogram[base + 2 * bin]!;
      h += histogram[base + 2 * bin + 1]!;
    }
    if (h < 2 * minLeaf) return undefined;
    const whole = (g * g) / (h + lambda);
    let best: Split | undefined;
    let gl = 0;
    let hl = 0;
    for (let border = 0; border < borders; border++) {
      gl += histogram[base + 2 * border]!;
      hl += histogram[base + 2 * border + 1]!;
      const hr = h - hl;
      if (hl < minLeaf || hr < minLeaf) continue;
      const gr = g - gl;
      const gain = (gl * gl) / (hl + lambda) + (gr * gr) / (hr + lambda) - whole;
      if (gain > (best?.gain ?? 1e-9)) best = { column, border, gain };
    }
    return best;
  }

  private divide(splits: (Split | undefined)[]): void {
    const { nodeOf, bins } = this;
    const columns = splits.map((split) => (split ? bins[split.column]! : undefined));
    for (let i = 0; i < this.count; i++) {
      const node = nodeOf[i]!;
      const column = columns[node];
      const right = column !== undefined && column[i]! > splits[node]!.border;
      nodeOf[i] = 2 * node + (right ? 1 : 0);
    }
  }
}

interface Split {
  column: number;
  border: number;
  gain: number;
}

function quantileBorders(rows: Rows, column: number): number[] {
  const count = rows.labels.length;
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = rows.values[i * rows.columns + column]!;
  values.sort();
  const borders: number[] = [];
  for (let i = 1; i < maxBins; i++) {
    const at = Math.floor((i * count) / maxBins);
    const value = values[at]!;
    if (value === values[count - 1]) break;
    if (borders.length === 0 || value > borders.at(-1)!) borders.push(value);
  }
  if (borders.length === 0 && values[0] !== values[count - 1]) borders.push(values[0]!);
  return borders;
}

/**
 * Bin b contains values above border b-1 and up to border b, matching `value > border` in the
 * forest.
 */
function binned(rows: Rows, column: number, borders: number[]): Uint8Array {
  const bins = new Uint8Array(rows.labels.length);
  for (let i = 0; i < bins.length; i++) {
    const value = rows.values[i * rows.columns + column]!;
    let low = 0;
    let high = borders.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (value > borders[middle]!) low = middle + 1;
      else high = middle;
    }
    bins[i] = low;
  }
  return bins;
}
