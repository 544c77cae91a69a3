// The contract of an operation: its name, input and output. Callers import contracts instead of operations, so that a call
// is typed from end to end without knowing who implements it.
import type { z } from 'zod';

export interface Contract<
  N extends string = string,
  I extends z.ZodType = z.ZodType,
  O extends z.ZodType = z.ZodType,
> {
  /** Snake-case verb and noun. It is the name of the MCP tool. */
  name: N;
  input: I;
  output: O;
}

/** What a caller passes: fields with a default may be omitted. */
export type InputOf<C extends Contract> = z.input<C['input']>;
/** What the operation gets. */
export type ParsedInputOf<C extends Contract> = z.output<C['input']>;
export type OutputOf<C extends Contract> = z.output<C['output']>;

export function defineContract<const N extends string, I extends z.ZodType, O extends z.ZodType>(
  contract: Contract<N, I, O>,
): Contract<N, I, O> {
  return contract;
}
