// Boosted decision trees, evaluation only. A tree is a complete binary tree of fixed depth; an
// unused node has feature 255 and sends everything left. Thresholds and leaves are small integers
// so that the table stays small.

export interface ForestTable {
  depth: number;
  trees: number;
  bias: number;
  /** Leaf values are multiples of this. */
  unit: number;
  /** Per feature: the borders between bins, ascending, with spaces between. */
  borders: string[];
  /** Base64 of bytes: per tree, per inner node: feature, border index. */
  nodes: string;
  /** Base64 of signed bytes: per tree, per leaf. */
  leaves: string;
}

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

  /** Probability for each row of a flat table with `columns` numbers per row. */
  predict(rows: Float32Array, count: number): Float32Array {
    const { depth, trees, columns, feature, border, leaf } = this;
    const inner = (1 << depth) - 1;
    const sums = new Float32Array(count).fill(this.bias);
    // Tree by tree: one tree stays in the fastest memory while all rows pass it.
    for (let tree = 0; tree < trees; tree++) {
      const root = tree * inner;
      const leaves = (tree << depth) - inner;
      for (let row = 0, base = 0; row < count; row++, base += columns) {
        let node = 0;
        for (let level = 0; level < depth; level++) {
          const at = root + node;
          node = 2 * node + (rows[base + feature[at]!]! > border[at]! ? 2 : 1);
        }
        sums[row]! += leaf[leaves + node]!;
      }
    }
    return sums.map((sum) => 1 / (1 + Math.exp(-sum)));
  }
}
