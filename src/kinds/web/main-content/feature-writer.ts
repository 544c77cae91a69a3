// Writes the features of one block into its row of the feature table, column by column.
export class FeatureWriter {
  private readonly rows: Float32Array;
  private at: number;
  constructor(rows: Float32Array, at: number) {
    this.rows = rows;
    this.at = at;
  }
  put(value: number): void {
    this.rows[this.at++] = value;
  }
  putAll(values: readonly number[]): void {
    for (const value of values) this.put(value);
  }
  /** Writes 1 for each set bit. The other columns are already 0. */
  putBits(bits: number, count: number): void {
    for (let left = bits; left !== 0; left &= left - 1)
      this.rows[this.at + 31 - Math.clz32(left & -left)] = 1;
    this.at += count;
  }
}
