// `errand run --stdin -`: what is piped into the command line, as text for the job.
import type { Readable } from 'node:stream';
import { AppError } from '../../errors.ts';
import type { Client } from './client.ts';
import type { Schema } from './schema.ts';

export async function pipedText(stdin: Readable, client: Client): Promise<string> {
  const bytesMax = await textMax(client);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLong(bytesMax);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new AppError('invalidInput', 'What came on stdin is not text in UTF-8.', {
      hint: inAFile,
      cause: error,
    });
  }
}

/** The server's own limit: a pipe without an end must not be read for ever. */
async function textMax(client: Client): Promise<number> {
  const { operations } = await client.catalog();
  const input = operations.find(({ name }) => name === 'run_command')?.input as Schema | undefined;
  const forms = input?.properties?.stdin?.anyOf ?? [];
  return forms.find(({ properties }) => properties?.text)?.properties?.text?.maxLength ?? 0;
}

const inAFile = "Put it in a file that the command reads: --shell 'command < file'.";

function tooLong(bytesMax: number): AppError {
  return new AppError('tooLarge', `What came on stdin is longer than ${bytesMax} bytes.`, {
    hint: inAFile,
  });
}
