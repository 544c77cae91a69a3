// What is wrong with an input, field by field, in words that a person and a model understand.
import { z } from 'zod';
import { AppError } from './errors.ts';
import { issueText } from './issue-text.ts';

/** What is wrong with the input of an operation or of a dialect's tool, field by field. */
export function inputError(
  { name, input }: { name: string; input: z.ZodType },
  error: z.ZodError,
): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const path = issue.path.join('.');
    return path ? `${path}: ${issueText(issue)}` : issueText(issue);
  });
  return new AppError('invalidInput', `Wrong input for ${name}: ${issues.join('; ')}`, {
    hint: unknownFieldHint(input, error) ?? 'The input schema names every field and its limits.',
    data: {
      issues: error.issues.slice(0, 20).map((issue) => ({
        path: issue.path.join('.'),
        message: issueText(issue),
        code: issue.code,
      })),
    },
  });
}

/** The same in the words of a dialect, whose callers do not know the fields by our names. */
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
  const told = issues.slice(0, 5).map(({ path, message }) => `${path || 'body'}: ${message}`);
  return new AppError('invalidInput', `Wrong input: ${told.join('; ')}.`, {
    hint,
    data: { issues },
  });
}

/** What the field may have meant to be, or all there are: a model often sees only this text. */
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
  return near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `It takes: ${fields.join(', ')}.`;
}
