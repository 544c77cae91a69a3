// Describes invalid input field by field, for people and models.
import { z } from 'zod';
import { AppError } from './errors.ts';
import { issueText } from './issue-text.ts';

/** The error for invalid input of an operation or a dialect tool. */
export function inputError(
  { name, input }: { name: string; input: z.ZodType },
  error: z.ZodError,
): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const path = issue.path.join('.');
    return path ? `${path}: ${issueText(issue)}` : issueText(issue);
  });
  return new AppError('invalidInput', `Invalid input for ${name}: ${issues.join('; ')}`, {
    hint: unknownFieldHint(input, error) ?? 'See the input schema for all fields and their limits.',
    data: {
      issues: error.issues.slice(0, 20).map((issue) => ({
        path: issue.path.join('.'),
        message: issueText(issue),
        code: issue.code,
      })),
    },
  });
}

/** The same error with the field names of a dialect. */
export function inputErrorAs(
  error: unknown,
  named: (field: string) => string,
  hint: string,
): unknown {
  const found = error instanceof AppError ? error.data?.issues : undefined;
  if (!Array.isArray(found)) return error;
  const issues = (found as { path: string; message: string }[]).map((issue) => {
    const path = issue.path.replace(/^\w+/, named);
    return { ...issue, path };
  });
  const listed = issues.slice(0, 5).map(({ path, message }) => `${path || 'body'}: ${message}`);
  return new AppError('invalidInput', `Invalid input: ${listed.join('; ')}.`, {
    hint,
    data: { issues },
  });
}

/** Suggests similar field names, or lists all fields. A model often sees only this text. */
function unknownFieldHint(input: z.ZodType, error: z.ZodError): string | undefined {
  const wrong = error.issues.find(
    (issue) => issue.code === 'unrecognized_keys' && issue.path.length === 0,
  );
  if (wrong?.code !== 'unrecognized_keys' || !(input instanceof z.ZodObject)) return undefined;
  const fields = Object.keys(input.shape);
  const begins = (one: string, other: string) => one.toLowerCase().startsWith(other.toLowerCase());
  const near = fields.filter((field) =>
    wrong.keys.some((key) => begins(field, key) || begins(key, field)),
  );
  return near.length > 0
    ? `Did you mean ${near.join(' or ')}?`
    : `Accepted fields: ${fields.join(', ')}.`;
}
