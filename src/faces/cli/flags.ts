// Flags of the commands that are written by hand.
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { AppError } from '../../errors.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

export function flags<T extends Options>(args: string[], options: T, usage: string) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new AppError('invalidInput', (error as Error).message.split('. ')[0]!, {
      hint: usage,
      cause: error,
    });
  }
}

export function wholeNumber(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  throw new AppError('invalidInput', `--${flag} needs a whole number, not ${text}.`);
}
