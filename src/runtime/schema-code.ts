// How Ajv writes its checks when the schema comes from outside: patterns on RE2, and an end to the faults it collects.
// Parts that refer to each other can find any number of faults in one small value, and a thread that runs out of memory
// over a growing list can take the whole process with it.
import { ajvPattern } from './pattern.ts';

const faultsMax = 100_000;
const stop = `throw new RangeError('more than ${faultsMax} faults were found')`;

export const ajvCode = {
  regExp: ajvPattern,
  process: (code: string): string =>
    code
      .replaceAll('errors++;', `if(++errors>${faultsMax})${stop};`)
      .replaceAll('errors = vErrors.length;', `if((errors = vErrors.length)>${faultsMax})${stop};`),
};
