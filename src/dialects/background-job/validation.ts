// Accepts arguments as the original does: numbers may be text, and invalid values are reported with the wording of its
// validator (pydantic) and the prefix of its framework.
import type { z } from 'zod';
import { isRecord } from '../../runtime/json.ts';

const wholeNumber = /^\s*[+-]?\d+(?:\.0+)?\s*$/;

/** The original converts `lines: "5"`, `5.0` and `true` to numbers. */
export function coerceLines(args: unknown): unknown {
  if (!isRecord(args) || !('lines' in args)) return args;
  const { lines } = args;
  if (typeof lines === 'string' && wholeNumber.test(lines))
    return { ...args, lines: Number(lines) };
  return typeof lines === 'boolean' ? { ...args, lines: Number(lines) } : args;
}

export function validationText(tool: string, { issues }: z.ZodError): string {
  const count = `${issues.length} validation error${issues.length === 1 ? '' : 's'}`;
  const lines = issues.map((issue) => `${issue.path.join('.')}\n  ${issueText(issue)}`);
  return `Error calling tool '${tool}': ${count} for call[${tool}]\n${lines.join('\n')}`;
}

function issueText(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') {
    if (issue.message.endsWith('received undefined')) return 'Missing required argument';
    return `Input should be a valid ${issue.expected === 'string' ? 'string' : 'integer'}`;
  }
  if (issue.code === 'too_small')
    return `Input should be greater than or equal to ${String(issue.minimum)}`;
  if (issue.code === 'too_big')
    return `Input should be less than or equal to ${String(issue.maximum)}`;
  return issue.message;
}
