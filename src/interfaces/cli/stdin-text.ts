// `errand run --stdin -`: reads stdin as text for the job.
import type { Readable } from 'node:stream';
import { AppError } from '../../errors.ts';
import type { Client } from './client.ts';
import type { Schema } from './schema.ts';

export async function readStdinText(stdin: Readable, client: Client): Promise<string> {
  const maxBytes = await maxStdinBytes(client);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw stdinTooLong(maxBytes);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new AppError('invalidInput', 'The text on stdin is not valid UTF-8.', {
      hint: fileHint,
      cause: error,
    });
  }
}

/** The limit of the server: an endless pipe must not be read forever. */
async function maxStdinBytes(client: Client): Promise<number> {
  const { operations } = await client.catalog();
  const input = operations.find(({ name }) => name === 'run_command')?.input as Schema | undefined;
  const forms = input?.properties?.stdin?.anyOf ?? [];
  return forms.find(({ properties }) => properties?.text)?.properties?.text?.maxLength ?? 0;
}

const fileHint = "Write it to a file that the command reads: --shell 'command < file'.";

function stdinTooLong(maxBytes: number): AppError {
  return new AppError('tooLarge', `The text on stdin exceeds ${maxBytes} bytes.`, {
    hint: fileHint,
  });
}
