// Translates the filters of operations on many jobs for a caller.
import type { z } from 'zod';
import type { filterFields } from '../../contracts/jobs.ts';
import type { Caller } from '../../operation.ts';
import type { Jobs } from '../jobs.ts';
import type { JobFilter } from '../ledger.ts';
import { limitFilter } from '../limits.ts';

type FilterInput = z.infer<z.ZodObject<typeof filterFields>>;

/** The filter for the jobs that the caller may see. Each job must still be checked if the key has a subject. */
export function toJobFilter(jobs: Jobs, input: FilterInput, caller: Caller): JobFilter {
  for (const kind of input.kind ?? []) jobs.kind(kind);
  return {
    ...(caller.admin ? {} : { owner: caller.owner }),
    ...(input.status && input.status.length > 0 ? { statuses: input.status } : {}),
    ...limitFilter(jobs, caller, input.kind),
    ...(input.queue === undefined ? {} : { queue: input.queue }),
    ...(input.name === undefined ? {} : { name: input.name }),
    ...(input.tag ? { tags: input.tag } : {}),
    ...(input.text === undefined ? {} : { text: input.text }),
    ...(input.parent === undefined ? {} : { parentId: input.parent }),
    ...(input.since === undefined ? {} : { createdAfter: Date.parse(input.since) }),
    ...(input.before === undefined ? {} : { createdBefore: Date.parse(input.before) }),
  };
}
