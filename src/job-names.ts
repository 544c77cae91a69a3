// Finds the input fields that name jobs, and resolves names and prefixes in them (jobs/references.ts looks the job up).
import { z } from 'zod';

/** Schemas of fields that name one or more jobs. Their values are resolved to ids before the call. */
export const jobFields = z.registry<{ names: 'job' }>();

const wholeId = /^job_[0-9a-hjkmnp-tv-z]{16}$/;
export const isReference = (value: unknown): value is string =>
  typeof value === 'string' && !wholeId.test(value) && value.length > 0 && value.length <= 200;
/** Maximum names per call. The schema rejects longer lists. */
const maxReferences = 100;

const namesOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** Whether one of these fields names a job by anything but its full id. */
export const hasReference = (input: Record<string, unknown>, fields: readonly string[]): boolean =>
  fields.some((field) => namesOf(input[field]).some(isReference));

/** Replaces names in these fields by job ids. */
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
      if (value.length <= maxReferences) resolved[field] = await Promise.all(value.map(idOf));
    } else if (value !== undefined) resolved[field] = await idOf(value);
  }
  return resolved;
}

/** Names that other systems use for a job id. Models mix them up. */
const idAliases = ['jobId', 'job_id'];
const idsAliases = ['id', ...idAliases, 'jobIds', 'job_ids'];

/** Renames common aliases of `id` and `ids` in the input. */
export function withUsualNames(input: unknown, fields: readonly string[] = []): unknown {
  if (!isFields(input)) return input;
  if (fields.includes('id')) return renamed(input, 'id', idAliases, (value) => value);
  if (!fields.includes('ids')) return input;
  return renamed(input, 'ids', idsAliases, (value) => (Array.isArray(value) ? value : [value]));
}

const isFields = (input: unknown): input is Record<string, unknown> =>
  typeof input === 'object' && input !== null && !Array.isArray(input);

function renamed(
  input: Record<string, unknown>,
  name: string,
  aliases: readonly string[],
  convert: (value: unknown) => unknown,
): Record<string, unknown> {
  const alias = aliases.find((one) => input[one] !== undefined);
  if (alias === undefined || input[name] !== undefined) return input;
  const { [alias]: value, ...rest } = input;
  return { ...rest, [name]: convert(value) };
}

/** The input fields that name jobs. */
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
