// Evaluates boosted decision trees. Each tree is a complete binary tree of fixed depth; an unused node has
// feature 255 and always branches left. Thresholds and leaves are small integers to keep the table small.

export interface ForestTable {
  depth: number;
  trees: number;
  bias: number;
  /** Leaf values are multiples of this. */
  unit: number;
  /** Per feature: the bin borders, ascending, separated by spaces. */
  borders: string[];
  /** Base64 of bytes: per tree and inner node, the feature and the border index. */
  nodes: string;
  /** Base64 of signed bytes: per tree and leaf. */
  leaves: string;
}

const rowsAtOnce = 64;

export class Forest {
  readonly columns: number;
  private readonly depth: number;
  private readonly trees: number;
  private readonly bias: number;
  private readonly feature: Uint8Array;
  private readonly border: Float32Array;
  private readonly leaf: Float32Array;

  constructor(table: ForestTable) {
    this.depth = table.depth;
    this.trees = table.trees;
    this.bias = table.bias;
    this.columns = table.borders.length;
    const borders = table.borders.map((column) => column.split(' ').map(Number));
    const nodes = Buffer.from(table.nodes, 'base64');
    const leaves = Buffer.from(table.leaves, 'base64');
    const inner = nodes.length / 2;
    this.feature = new Uint8Array(inner);
    this.border = new Float32Array(inner);
    for (let i = 0; i < inner; i++) {
      const feature = nodes[2 * i]!;
      this.feature[i] = feature === 255 ? 0 : feature;
      const border = borders[feature]?.[nodes[2 * i + 1]!];
      this.border[i] = border ?? Number.POSITIVE_INFINITY;
    }
    this.leaf = new Float32Array(leaves.length);
    for (let i = 0; i < leaves.length; i++) this.leaf[i] = leaves.readInt8(i) * table.unit;
  }

  /** Returns the probability for each row of a flat table with `columns` numbers per row. */
  predict(rows: Float32Array, count: number): Float32Array {
    const { depth, trees, columns, feature, border, leaf } = this;
    const inner = (1 << depth) - 1;
    const sums = new Float32Array(count).fill(this.bias);
    // A few rows at a time pass through all trees, so that both stay in the CPU cache.
    for (let start = 0; start < count; start += rowsAtOnce) {
      const end = Math.min(start + rowsAtOnce, count);
      for (let tree = 0; tree < trees; tree++) {
        const root = tree * inner;
        const leaves = (tree << depth) - inner;
        for (let row = start, base = start * columns; row < end; row++, base += columns) {
          let node = 0;
          for (let level = 0; level < depth; level++) {
            const at = root + node;
            node = 2 * node + (rows[base + feature[at]!]! > border[at]! ? 2 : 1);
          }
          sums[row]! += leaf[leaves + node]!;
        }
      }
    }
    return sums.map((sum) => 1 / (1 + Math.exp(-sum)));
  }
}
