// Labels: what a job requires from a node, and what a node offers.
/** `gpu` matches `gpu` and `gpu=a100`; `gpu=a100` matches only itself. */
export function hasLabels(has: ReadonlySet<string>, wanted: readonly string[]): boolean {
  return wanted.every(
    (label) => has.has(label) || [...has].some((one) => one.startsWith(`${label}=`)),
  );
}
