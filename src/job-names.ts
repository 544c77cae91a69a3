// Which fields of an input name jobs, and what may stand there besides a whole id (jobs/references.ts finds the job).
import { z } from 'zod';

/** Schemas of fields that name a job, alone or in a list: what a caller gives is resolved to an id before the call. */
export const jobFields = z.registry<{ names: 'job' }>();

const wholeId = /^job_[0-9a-hjkmnp-tv-z]{16}$/;
export const isReference = (value: unknown): value is string =>
  typeof value === 'string' && !wholeId.test(value) && value.length > 0 && value.length <= 200;
/** Jobs named in one call; a longer list is refused by its schema. */
export const referencesMax = 100;

export const namesOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : [value];

/** The fields of an input that name jobs. */
export function namingFields(input: z.ZodType): string[] {
  if (!(input instanceof z.ZodObject)) return [];
  return Object.entries(input.shape as Record<string, z.ZodType>)
    .filter(([, schema]) => namesJob(schema))
    .map(([field]) => field);
}

function namesJob(schema: z.ZodType): boolean {
  if (jobFields.get(schema as never)) return true;
  const { innerType, element } = schema.def as { innerType?: z.ZodType; element?: z.ZodType };
  const inner = innerType ?? element;
  return inner !== undefined && namesJob(inner);
}
