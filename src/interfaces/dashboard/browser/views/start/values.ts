// What somebody entered into a form as the input of an operation, or the problem with it.
import { microOf } from '../../amounts.ts';
import type { Field, Form } from './schema.ts';

export type Texts = Readonly<Record<string, string>>;

/** Problems by field. The empty name is the form as a whole. */
export type Problems = Readonly<Record<string, string>>;

class Unreadable extends Error {}

export function readForm(
  { fields, rare }: Form,
  texts: Texts,
): { input: Record<string, unknown>; problems: Problems } {
  const input: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of [...fields, ...rare]) {
    const text = texts[field.name] ?? '';
    if (text.trim() === '') {
      if (field.isNeeded) problems[field.name] = 'This field is required.';
      continue;
    }
    try {
      input[field.name] = valueOf(field, text);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      problems[field.name] = error.message;
    }
  }
  return { input, problems };
}

function valueOf({ control }: Field, text: string): unknown {
  switch (control.type) {
    case 'flag':
      return text === 'true';
    case 'number':
      return numberOf(text, control);
    case 'choice':
      return control.options.find((option) => String(option) === text);
    case 'lines':
    case 'several':
      return text
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
    case 'pairs':
      return pairsOf(text);
    case 'json':
      return jsonOf(text);
    case 'time':
      return new Date(text).toISOString();
    case 'amount':
      return amountOf(text);
    case 'text':
    case 'long':
      return text;
  }
}

function numberOf(
  text: string,
  { min, max, isWhole }: { min: number | undefined; max: number | undefined; isWhole: boolean },
): number {
  const value = Number(text);
  if (Number.isNaN(value)) throw new Unreadable('This must be a number.');
  if (isWhole && !Number.isInteger(value)) throw new Unreadable('This must be a whole number.');
  if (min !== undefined && value < min) throw new Unreadable(`This must be at least ${min}.`);
  if (max !== undefined && value > max) throw new Unreadable(`This must be at most ${max}.`);
  return value;
}

function pairsOf(text: string): Record<string, string> {
  const pairs = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line): [string, string] => {
      const mark = line.indexOf('=');
      if (mark <= 0) throw new Unreadable(`This must be NAME=value: ${line}`);
      return [line.slice(0, mark).trim(), line.slice(mark + 1)];
    });
  return Object.fromEntries(pairs);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unreadable(`This must be JSON. ${(error as Error).message}`);
  }
}

function amountOf(text: string): string {
  const micro = microOf(text);
  if (micro === undefined) throw new Unreadable('This must be an amount, like 2.50.');
  return micro;
}

/** The problems that the server reported, at the fields that it named. */
export function problemsOf(
  { fields, rare }: Form,
  issues: readonly { path: string; message: string }[],
): Problems {
  const names = new Set([...fields, ...rare].map(({ name }) => name));
  const problems: Record<string, string> = {};
  for (const { path, message } of issues) {
    const [name = '', ...rest] = path.split('.');
    const at = names.has(name) ? name : '';
    const inner = at === '' ? path : rest.join('.');
    problems[at] = [problems[at], inner === '' ? message : `${inner}: ${message}`]
      .filter((part) => part !== undefined)
      .join(' ');
  }
  return problems;
}
