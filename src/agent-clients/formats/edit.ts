// Text edits of config files, and the check that an edit changes our entry and nothing else.
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '../../errors.ts';
import { ownValue, setOwn } from '../../runtime/by-name.ts';

export interface Edit {
  at: number;
  remove: number;
  insert: string;
}

export type Entry = Record<string, unknown>;

/** One file format. All functions are pure. */
export interface Format {
  /** Throws a ParseError if the client could not read the text either. An empty text is an empty object. */
  parse(text: string): Entry;
  /** Possible edits that set the entry, best first. */
  settings(text: string, path: readonly string[], entry: Entry): Edit[][];
  /** Possible edits that remove the entry, best first. */
  removals(text: string, path: readonly string[]): Edit[][];
}

export class ParseError extends Error {}

/** Edits refer to the original text and do not overlap. */
function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = text;
  for (const { at, remove, insert } of edits.toSorted((a, b) => b.at - a.at))
    result = result.slice(0, at) + insert + result.slice(at + remove);
  return result;
}

/** Returns the text with the entry, or the same text if the entry is already equal. */
export function withEntry(
  format: Format,
  text: string,
  path: readonly string[],
  entry: Entry,
): string {
  const before = format.parse(text);
  if (isDeepStrictEqual(valueAt(before, path), plain(entry))) return text;
  const expected = setAt(before, path, plain(entry));
  const found = firstValid(format, text, format.settings(text, path, entry), [expected]);
  if (found !== undefined) return found;
  throw new AppError('conflict', `${path.join('.')} cannot be set by a small edit.`, {
    hint: `Set it by hand to: ${JSON.stringify(entry)}`,
  });
}

/** Returns the text without the entry, or the same text if it has none. */
export function withoutEntry(format: Format, text: string, path: readonly string[]): string {
  const before = format.parse(text);
  if (valueAt(before, path) === undefined) return text;
  const expected = setAt(before, path, undefined);
  const accepted = [expected, ...withoutEmptyParents(expected, path)];
  const found = firstValid(format, text, format.removals(text, path), accepted);
  if (found !== undefined) return found;
  throw new AppError('conflict', `${path.join('.')} cannot be removed by a small edit.`, {
    hint: 'Remove it by hand.',
  });
}

function firstValid(
  format: Format,
  text: string,
  candidates: readonly Edit[][],
  accepted: readonly unknown[],
): string | undefined {
  return candidates
    .map((edits) => applyEdits(text, edits))
    .find((result) => {
      try {
        const value = format.parse(result);
        return accepted.some((each) => isDeepStrictEqual(value, each));
      } catch {
        return false;
      }
    });
}

export function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (parent, name) => (isObject(parent) ? ownValue(parent, name) : undefined),
    value,
  );
}

export const isObject = (value: unknown): value is Entry =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null);

/** Returns a copy with another value at the path; `undefined` deletes it. */
function setAt(value: unknown, [name, ...rest]: readonly string[], to: unknown): unknown {
  const copy: Entry = Object.create(null) as Entry;
  for (const [key, own] of Object.entries(isObject(value) ? value : {})) setOwn(copy, key, own);
  const child = rest.length === 0 ? to : setAt(ownValue(copy, name!), rest, to);
  if (child === undefined) delete copy[name!];
  else setOwn(copy, name!, child);
  return copy;
}

/** The same value without the parents that are empty now, and with null in place of the innermost one (YAML). */
function withoutEmptyParents(value: unknown, path: readonly string[]): unknown[] {
  const parents = path.slice(0, -1);
  const parent = valueAt(value, parents);
  if (parents.length === 0 || !isObject(parent) || Object.keys(parent).length > 0) return [];
  const shorter = setAt(value, parents, undefined);
  return [setAt(value, parents, null), shorter, ...withoutEmptyParents(shorter, parents)];
}

/** A JSON copy whose objects have no prototype, as the formats return them. */
export function plain<T>(value: T): T {
  if (Array.isArray(value)) return value.map(plain) as T;
  if (!isObject(value)) return value;
  const copy: Entry = Object.create(null) as Entry;
  for (const [key, own] of Object.entries(value)) setOwn(copy, key, plain(own));
  return copy as T;
}

/** The line ending that most lines of the text have. */
export function lineEnding(text: string): string {
  const windows = text.split('\r\n').length - 1;
  return windows > 0 && windows * 2 >= text.split('\n').length - 1 ? '\r\n' : '\n';
}

export const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1;

/** The offset after the line ending of this line, or the end of the text. */
export function lineEnd(text: string, at: number): number {
  const found = text.indexOf('\n', at);
  return found < 0 ? text.length : found + 1;
}

export const indentAt = (text: string, at: number): string =>
  /^[ \t]*/.exec(text.slice(lineStart(text, at)))![0];
