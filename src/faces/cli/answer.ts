// An answer as it is printed: JSON for scripts; else what its command says for people, a table, or the text.
import { AppError } from '../../errors.ts';
import type { Answered, CatalogEntry } from './bridge.ts';
import { commandNames, printOutput, terminalWords } from './print.ts';
import type { Screen } from './screen.ts';
import { isAwaited } from './words.ts';

/** Answers the exit code. */
export function sayAnswer(
  screen: Screen,
  answer: Answered,
  { json, operations }: { json: boolean; operations: readonly CatalogEntry[] },
  entry = operations.find(({ name }) => name === answer.name)!,
): number {
  const { output, text, shown, jobId, failure } = answer;
  if (failure)
    throw new AppError(failure.code, failure.message, failure.hint ? { hint: failure.hint } : {});
  if (json) screen.out(`${JSON.stringify(output)}\n`);
  else if (jobId !== undefined && isAwaited(entry)) screen.out(`${jobId}\n`);
  else {
    const spoken = text && terminalWords(text, commandNames(operations));
    printOutput(screen, entry, output, { text: spoken, shown });
  }
  return answer.isShort ? 1 : 0;
}
