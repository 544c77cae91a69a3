// Runs an operation on the server of the cluster that has the files of its job (operations with `at`).
import type { CallContext } from './call-context.ts';
import { AppError } from './errors.ts';
import type { StreamItem } from './stream-item.ts';

/** A server of the same cluster and its address. */
export interface Place {
  node: string;
  url: string;
}

/** Calls operations on other servers of the cluster, for operations with `at`. */
export interface Elsewhere {
  /** The node that must run a call with this input, or undefined for this node. */
  place(input: unknown, at: 'job' | 'attempt'): Promise<Place | undefined>;
  call(place: Place, name: string, input: unknown, context: CallContext): Promise<unknown>;
  stream(
    place: Place,
    name: string,
    input: unknown,
    context: CallContext,
  ): AsyncIterable<StreamItem>;
}

interface Called {
  elsewhere: Elsewhere;
  /** As the caller sent it: the other server parses it again. */
  input: unknown;
  parsed: unknown;
  context: CallContext;
}

interface Placed {
  name: string;
  at?: 'job' | 'attempt';
}

interface Runnable extends Placed {
  run(input: unknown, context: CallContext): Promise<unknown>;
}

interface Following extends Placed {
  stream(input: unknown, context: CallContext): AsyncIterable<StreamItem>;
}

/** Field in an error's data: the node that now has the job. Any node may claim a waiting job in the meantime. */
export const movedTo = 'movedTo';
const maxMoves = 3;
const hasMoved = (error: unknown): boolean =>
  error instanceof AppError && error.data?.[movedTo] !== undefined;

export async function callWhereJobIs(operation: Runnable, called: Called): Promise<unknown> {
  const { elsewhere, input, parsed, context } = called;
  for (let moves = 0; ; moves++) {
    const place = await elsewhere.place(parsed, operation.at!);
    if (place !== undefined) return elsewhere.call(place, operation.name, input, context);
    try {
      return await operation.run(parsed, context);
    } catch (error) {
      if (!hasMoved(error) || moves === maxMoves) throw error;
    }
  }
}

export async function* followWhereJobIs(
  operation: Following,
  called: Called,
): AsyncGenerator<StreamItem> {
  const { elsewhere, input, parsed, context } = called;
  for (let moves = 0; ; moves++) {
    const place = await elsewhere.place(parsed, operation.at!);
    if (place !== undefined) return yield* elsewhere.stream(place, operation.name, input, context);
    let begun = false;
    try {
      for await (const item of operation.stream(parsed, context)) {
        begun = true;
        yield item;
      }
      return;
    } catch (error) {
      // A stream that has already sent items cannot restart on another node.
      if (!hasMoved(error) || begun || moves === maxMoves) throw error;
    }
  }
}
