// `errand cancel ID…`: one call for each thing named. One that fails does not keep the others from being done.
import { errorBody, errorKind } from '../../errors.ts';
import type { Answered, CatalogEntry } from './bridge.ts';
import type { Client } from './client.ts';
import { harmless } from './print.ts';
import type { Screen } from './screen.ts';
import { usageError } from './words.ts';

/** Calls under way at once: a cancel waits until its job is over. */
const callsMax = 16;

interface Needs {
  screen: Screen;
  server: Client;
  entry: CatalogEntry;
  operations: readonly CatalogEntry[];
}

type Input = Record<string, unknown>;

/** A line for each in the order they were named; the exit code is that of the first that failed. */
export async function callEach(
  needs: Needs,
  inputs: readonly Input[],
  json: boolean,
): Promise<number> {
  let exit = 0;
  for (let at = 0; at < inputs.length; at += callsMax) {
    const part = inputs.slice(at, at + callsMax);
    const answers = await Promise.allSettled(
      part.map((input) => needs.server.call(needs.entry.name, input)),
    );
    for (const [i, answer] of answers.entries()) {
      const code =
        answer.status === 'fulfilled'
          ? sayDone(needs.screen, answer.value, json)
          : sayFailed(needs, part[i]!, answer.reason, json);
      exit ||= code;
    }
  }
  return exit;
}

function sayDone(screen: Screen, { output, shown }: Answered, json: boolean): number {
  const { id, status } = output as { id: string; status: string };
  const text = shown ?? `${id} ${status}`;
  screen.out(json ? `${JSON.stringify(output)}\n` : `${harmless(text)}\n`);
  return 0;
}

function sayFailed(
  { screen, entry, operations }: Needs,
  { id }: Input,
  reason: unknown,
  json: boolean,
): number {
  const error = errorBody(usageError(reason, entry, operations));
  if (json) screen.out(`${JSON.stringify({ id, error })}\n`);
  else screen.err(harmless(`errand: ${String(id)}: ${error.message}\n`));
  return errorKind(error.code).exit;
}
