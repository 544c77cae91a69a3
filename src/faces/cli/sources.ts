// Values that have fields of their own come as JSON: typed, from a file, or piped in.
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { AppError } from '../../errors.ts';
import { parseJson } from '../../runtime/json.ts';
import { typeOf, type Schema } from './schema.ts';

/** Where a value may come from beside the command line itself. */
export interface Sources {
  file(path: string): Promise<string>;
  stdin(): Promise<string>;
}

export function sourcesOf(stdin: Readable): Sources {
  let isTaken = false;
  return {
    file: async (path) => {
      try {
        return await readFile(path, 'utf8');
      } catch (error) {
        throw new AppError('invalidInput', `${path} cannot be read: ${reason(error)}.`, {
          hint: 'Such a value is JSON, the path of a file with JSON, or - for what is piped in.',
          cause: error,
        });
      }
    },
    stdin: async () => {
      if (isTaken) throw new AppError('invalidInput', 'Only one value can come from stdin (-).');
      isTaken = true;
      return text(stdin);
    },
  };
}

/**
 * What stands for the value: `-` is stdin, `@path` a file, and so is a bare path where only JSON (or `field=value`) could
 * be meant.
 */
export async function writtenText(
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

export function jsonOf(flag: string, written: string): unknown {
  try {
    return parseJson(written);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('invalidInput', `--${flag} is no JSON: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

const reason = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code === 'ENOENT'
    ? 'there is no such file'
    : (error as Error).message;
