// Reads flag values that are JSON: inline, from a file, or from stdin.
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { AppError } from '../../errors.ts';
import { parseJson } from '../../runtime/json.ts';
import { typeOf, type Schema } from './schema.ts';

/** Where a value may come from, apart from the command line itself. */
export interface Sources {
  file(path: string): Promise<string>;
  stdin(): Promise<string>;
}

export function createSources(stdin: Readable): Sources {
  let isStdinRead = false;
  return {
    file: async (path) => {
      try {
        return readFileSync(path, 'utf8');
      } catch (error) {
        throw new AppError('invalidInput', `${path} cannot be read: ${readErrorText(error)}.`, {
          hint: 'Use JSON, the path of a JSON file, or - for stdin.',
          cause: error,
        });
      }
    },
    stdin: async () => {
      if (isStdinRead)
        throw new AppError('invalidInput', 'Only one value can be read from stdin (-).');
      isStdinRead = true;
      const { text } = await import('node:stream/consumers');
      return text(stdin);
    },
  };
}

/**
 * Returns the text of a value: `-` reads stdin and `@path` reads a file. A bare path also reads a file where the value must
 * be JSON or `field=value`.
 */
export async function readValueText(
  property: Schema,
  typed: string,
  sources: Sources,
): Promise<string> {
  const type = typeOf(property);
  const isList = type === 'array' && typeOf(property.items ?? {}) === 'object';
  if (!isList && type !== 'object' && type !== 'any') return typed;
  if (typed === '-') return sources.stdin();
  if (typed.startsWith('@')) return sources.file(typed.slice(1));
  if (type === 'any' || /^\s*[[{]/.test(typed)) return typed;
  return typed === 'null' || (type === 'object' && typed.includes('='))
    ? typed
    : sources.file(typed);
}

export function parseJsonFlag(flag: string, written: string): unknown {
  try {
    return parseJson(written);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('invalidInput', `--${flag} is not valid JSON: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

const readErrorText = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code === 'ENOENT'
    ? 'the file does not exist'
    : (error as Error).message;
