// Describes an operation on the command line: words, arguments, flags, and how a person sees the output.

export interface CliShape {
  /** Words after `errand`: ['queue', 'list']. */
  words: readonly string[];
  /** Input fields that are positional arguments. The last may be an array that takes the remaining arguments. */
  args?: readonly string[];
  /** The last of `args` may be repeated. Each value is a separate call. */
  each?: boolean;
  /**
   * Table columns for an output with one list. Otherwise the fields are printed. `bodies` are long texts that are printed below
   * their row.
   */
  table?: {
    rows: string;
    columns: readonly string[];
    bodies?: readonly string[];
    /** Times to show as an age: `3m ago`. */
    ages?: readonly string[];
    /** Columns that a terminal omits if all rows have the same value. */
    variable?: readonly string[];
  };
  /** A hand-written command replaces the generated one. It still calls the operation. */
  custom?: boolean;
  /** Input fields that the command words imply: `errand news` is a search of type news. */
  preset?: Readonly<Record<string, unknown>>;
  /** One line for the list of commands, if the operation's title does not fit. */
  summary?: string;
  /** Help text for people, if the description for models does not fit. */
  about?: string;
  /** Example lines in the help. */
  examples?: readonly string[];
  /**
   * Amounts that the operation accepts in micro-units and a person types in units: `2.50`. Keyed by field (`milestones.amount` for
   * a field in a list), with the help text.
   */
  units?: Readonly<Record<string, string>>;
  /** One-letter flags per field. */
  shorts?: Readonly<Record<string, string>>;
  /** Default values of other fields if a field is given: typed text ends with Enter. */
  implied?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** The error with which the command fails, for an output that is not an error for a model. */
  failure?(output: unknown): { code: string; message: string; hint?: string } | undefined;
  /** Accepts --allow-private: the owner may use private addresses. */
  allowsPrivate?: boolean;
  /** The output for people, if neither the table nor the text for models fits. */
  text?(output: unknown): string | undefined;
  /** The output is incomplete: exit code 1. */
  isShort?(output: unknown): boolean;
}

export function commandsOf({ cli }: { cli?: CliShape | readonly CliShape[] }): readonly CliShape[] {
  if (cli === undefined) return [];
  return 'words' in cli ? [cli] : cli;
}
