// Labels: what a job asks of the node that runs it, and what a node offers. One word and one shape everywhere.
import { z } from 'zod';

const labelsMax = 10;

export const labelList = z.array(z.string().regex(/^[\w.-]{1,60}(=[\w.-]{0,60})?$/)).max(labelsMax);

/** `gpu` is met by `gpu` and by `gpu=a100`; `gpu=a100` only by itself. */
export function hasLabels(has: ReadonlySet<string>, wanted: readonly string[]): boolean {
  return wanted.every(
    (label) => has.has(label) || [...has].some((one) => one.startsWith(`${label}=`)),
  );
}
