// Turns a zod issue into readable text: `must be at most 200` instead of `Too big: expected number to be <=200`.
import { byName } from './runtime/by-name.ts';
import type { z } from 'zod';

type Issue = z.core.$ZodIssue;

export function issueText(issue: Issue): string {
  const isOwn = !standard.test(issue.message);
  return isOwn ? issue.message : (textOf(issue) ?? issue.message);
}

/** zod's default messages. A message that a schema defines itself is kept. */
const standard =
  /^(Invalid input|Invalid option|Invalid string|Invalid key|Invalid element|Too big|Too small|Unrecognized key|Invalid number|Invalid [A-Za-z0-9 -]+$)/;

function textOf(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return typeText(issue);
    case 'too_big':
      return boundText(
        issue.origin,
        issue.inclusive === false ? 'less than' : 'at most',
        issue.maximum,
      );
    case 'too_small':
      return boundText(
        issue.origin,
        issue.inclusive === false ? 'more than' : 'at least',
        issue.minimum,
      );
    case 'invalid_value':
      return `must be ${listed(issue.values.map(String))}`;
    case 'unrecognized_keys':
      return `has no field ${issue.keys.join(', ')}`;
    case 'invalid_format':
      return formatText(issue);
    case 'not_multiple_of':
      return `must be a multiple of ${String(issue.divisor)}`;
    case 'invalid_union':
      return unionText(issue);
    case 'custom':
    case 'invalid_element':
    case 'invalid_key':
      return undefined;
  }
}

const typeNames: Readonly<Record<string, string>> = byName({
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
});

/** The given value is not repeated, because it may be a secret. */
function typeText(issue: Extract<Issue, { code: 'invalid_type' }>): string {
  if (issue.message.endsWith('received undefined')) return 'is required';
  return `must be ${typeNames[issue.expected] ?? issue.expected}`;
}

const units: Readonly<Record<string, string>> = byName({
  string: ' characters long',
  array: ' items',
  set: ' items',
  file: ' bytes',
});

function boundText(origin: string, word: string, bound: number | bigint): string {
  const amount = `${word} ${String(bound)}`;
  if (origin === 'string' && word === 'at least' && Number(bound) === 1) return 'must not be empty';
  if (origin === 'array' || origin === 'set')
    return `must have ${amount} ${Number(bound) === 1 ? 'item' : 'items'}`;
  return `must be ${amount}${units[origin] ?? ''}`;
}

const formats: Readonly<Record<string, string>> = byName({
  url: 'must be a URL, like https://example.com/',
  datetime: 'must be a time, like 2026-01-31T08:00:00Z',
  date: 'must be a date, like 2026-01-31',
  email: 'must be an e-mail address',
  uuid: 'must be a UUID',
});

function formatText(issue: Extract<Issue, { code: 'invalid_format' }>): string {
  const known = formats[issue.format];
  if (known !== undefined) return known;
  const { pattern } = issue as { pattern?: string };
  return pattern === undefined ? `must be a valid ${issue.format}` : `must match ${pattern}`;
}

/** Reports the option whose type matches, or else lists all types. */
function unionText(issue: Extract<Issue, { code: 'invalid_union' }>): string {
  const options = issue.errors.map((problems) => problems.map((problem) => within(problem)));
  const deep = issue.errors.findIndex((problems) =>
    problems.every(
      (problem) => problem.code !== 'invalid_type' && problem.code !== 'invalid_value',
    ),
  );
  if (deep >= 0) return options[deep]!.join('; ');
  const texts = [...new Set(options.map((texts) => texts.join('; ').replace(/^must be /, '')))];
  return `must be ${listed(texts)}`;
}

const within = (issue: Issue): string => {
  const path = issue.path.join('.');
  const text = issueText(issue);
  return path === '' ? text : `${path} ${text}`;
};

function listed(values: readonly string[]): string {
  if (values.length === 1) return values[0]!;
  return `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`;
}
