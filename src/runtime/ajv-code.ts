// Ajv code generation options for schemas from outside: patterns run on RE2, and the number of collected errors is limited.
// Recursive references can report any number of errors for one small value, and a thread that runs out of memory can take
// the whole process down.
import { ajvPattern } from './safe-pattern.ts';

const maxErrors = 100_000;
const stop = `throw new RangeError('more than ${maxErrors} errors were found')`;

export const ajvCode = {
  regExp: ajvPattern,
  process: (code: string): string =>
    code
      .replaceAll('errors++;', `if(++errors>${maxErrors})${stop};`)
      .replaceAll('errors = vErrors.length;', `if((errors = vErrors.length)>${maxErrors})${stop};`),
};
