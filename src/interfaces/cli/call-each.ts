// `errand cancel ID…`: calls the operation once per argument. A failed call does not prevent the others.
import { errorBody, errorKind } from '../../errors.ts';
import type { CallResponse, CatalogEntry } from './operations-route.ts';
import type { Client } from './client.ts';
import { sanitize } from './print.ts';
import type { Screen } from './screen.ts';
import { usageError } from './operation-command.ts';

/** Concurrent calls: each cancel waits until its job has ended. */
const maxCalls = 16;

interface Deps {
  screen: Screen;
  server: Client;
  entry: CatalogEntry;
  operations: readonly CatalogEntry[];
}

type Input = Record<string, unknown>;

/** Prints one line per argument in the given order. Returns the exit code of the first failure. */
export async function callEach(
  deps: Deps,
  inputs: readonly Input[],
  json: boolean,
): Promise<number> {
  let exit = 0;
  for (let at = 0; at < inputs.length; at += maxCalls) {
    const part = inputs.slice(at, at + maxCalls);
    const results = await Promise.allSettled(
      part.map((input) => deps.server.callNamed(deps.entry.name, input)),
    );
    for (const [i, result] of results.entries()) {
      const code =
        result.status === 'fulfilled'
          ? printDone(deps.screen, result.value, json)
          : printFailure(deps, part[i]!, result.reason, json);
      exit ||= code;
    }
  }
  return exit;
}

function printDone(screen: Screen, { output, shown }: CallResponse, json: boolean): number {
  const { id, status } = output as { id: string; status: string };
  const text = shown ?? `${id} ${status}`;
  screen.out(json ? `${JSON.stringify(output)}\n` : `${sanitize(text)}\n`);
  return 0;
}

function printFailure(
  { screen, entry, operations }: Deps,
  { id }: Input,
  reason: unknown,
  json: boolean,
): number {
  const error = errorBody(usageError(reason, entry, operations));
  if (json) screen.out(`${JSON.stringify({ id, error })}\n`);
  else screen.err(sanitize(`errand: ${String(id)}: ${error.message}\n`));
  return errorKind(error.code).exit;
}
