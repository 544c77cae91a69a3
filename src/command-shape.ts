// How an operation is typed: its words, arguments and flags, and how its answer looks to a person.

export interface CliShape {
  /** Words after `errand`: ['queue', 'list']. */
  words: readonly string[];
  /** Fields of the input taken in order without a flag; the last may be an array and takes the rest. */
  args?: readonly string[];
  /** The last of `args` may be given several times: a call for each. */
  each?: boolean;
  /**
   * Columns for a table when the output has one list; else the fields are printed. `bodies`: texts a row may have that
   * no cell can hold; a row with one is a line with its text below.
   */
  table?: {
    rows: string;
    columns: readonly string[];
    bodies?: readonly string[];
    /** Times that are shown as an age: `3m ago`. */
    ages?: readonly string[];
    /** Columns that are left out on a terminal when all rows have the same value. */
    variable?: readonly string[];
  };
  /** A hand-written command of the same words replaces the generated one (it still calls the operation). */
  custom?: boolean;
  /** Fields of the input that the words say already: `errand news` is a search of type news. */
  preset?: Readonly<Record<string, unknown>>;
  /** What the list of commands says of it, where the operation's own title is about more. */
  summary?: string;
  /** Its help as a person reads it, where the description for models says too much or the wrong thing. */
  about?: string;
  /** Lines to copy, in its help. */
  examples?: readonly string[];
  /**
   * Amounts that the operation takes in micro-units and a person types in units: `2.50`. By field (`milestones.amount`
   * for a field of a list), with what its help says.
   */
  units?: Readonly<Record<string, string>>;
  /** Flags of one letter, by field. */
  shorts?: Readonly<Record<string, string>>;
  /** Values of other fields that giving a field implies, unless they are given: text that is typed ends with Enter. */
  implied?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** The answer is no error for a model, but it is for a person: what the command line fails with. */
  failure?(output: unknown): { code: string; message: string; hint?: string } | undefined;
  /** It takes --allow-private: addresses that it names may be private when the owner says so. */
  allowsPrivate?: boolean;
  /** The answer as a person reads it, where neither the table nor the text for models will do. */
  text?(output: unknown): string | undefined;
  /** The answer says that it was not all to be had: exit code 1, so that scripts need not read it. */
  isShort?(output: unknown): boolean;
}
