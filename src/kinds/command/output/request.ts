// What read_output and followers of output get and return.
import type { readOutput } from '../../../contracts/command.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { OutputOf, ParsedInputOf } from '../../../operation.ts';
import type { JobFiles } from '../files.ts';

export interface OutputDeps {
  jobs: Jobs;
  files: JobFiles;
  clock: Clock;
  /** Masks values that look like secrets in output for a model. */
  mask(jobId: string, text: string): string;
}

export type OutputInput = ParsedInputOf<typeof readOutput>;
export interface OutputRequest extends Partial<Omit<OutputInput, 'id'>> {
  /** For people and programs: values that look like secrets are not masked. */
  unmasked?: boolean;
}

export type OutputResponse = OutputOf<typeof readOutput>;
