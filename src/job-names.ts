// Which fields of an input name jobs, and what may stand there besides a whole id (jobs/references.ts finds the job).
import { z } from 'zod';

/** Schemas of fields that name a job, alone or in a list: what a caller gives is resolved to an id before the call. */
export const jobFields = z.registry<{ names: 'job' }>();

const wholeId = /^job_[0-9a-hjkmnp-tv-z]{16}$/;
export const isReference = (value: unknown): value is string =>
  typeof value === 'string' && !wholeId.test(value) && value.length > 0 && value.length <= 200;
/** Jobs named in one call; a longer list is refused by its schema. */
const referencesMax = 100;

const namesOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** Whether one of these fields names a job by something else than a whole id. */
export const hasReference = (input: Record<string, unknown>, fields: readonly string[]): boolean =>
  fields.some((field) => namesOf(input[field]).some(isReference));

/** The same input with the ids of the jobs that these fields name. */
export async function withIds(
  input: Record<string, unknown>,
  fields: readonly string[],
  resolve: (text: string) => Promise<string>,
): Promise<Record<string, unknown>> {
  const resolved = { ...input };
  const idOf = (text: unknown) => (isReference(text) ? resolve(text) : text);
  for (const field of fields) {
    const value = input[field];
    if (Array.isArray(value)) {
      if (value.length <= referencesMax) resolved[field] = await Promise.all(value.map(idOf));
    } else if (value !== undefined) resolved[field] = await idOf(value);
  }
  return resolved;
}

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
