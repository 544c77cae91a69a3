// Prints the response of a call: JSON for scripts; otherwise text for people, a table, or text for models.
import { AppError } from '../../errors.ts';
import type { CallResponse, CatalogEntry } from './operations-route.ts';
import { commandNames, printOutput, withCommandNames } from './print.ts';
import type { Screen } from './screen.ts';
import { waitsByDefault } from './operation-command.ts';

/** Returns the exit code. */
export function printResponse(
  screen: Screen,
  response: CallResponse,
  { json, operations }: { json: boolean; operations: readonly CatalogEntry[] },
  entry = operations.find(({ name }) => name === response.name)!,
): number {
  const { output, text, shown, jobId, failure } = response;
  if (failure)
    throw new AppError(failure.code, failure.message, failure.hint ? { hint: failure.hint } : {});
  if (json) screen.out(`${JSON.stringify(output)}\n`);
  else if (jobId !== undefined && waitsByDefault(entry)) screen.out(`${jobId}\n`);
  else {
    const commandText = text && withCommandNames(text, commandNames(operations));
    printOutput(screen, entry, output, { text: commandText, shown });
  }
  return response.isShort ? 1 : 0;
}
