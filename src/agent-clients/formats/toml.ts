// TOML config files (Codex). An entry is one table, written as text at the end of the file; a parser checks the result.
import { parse } from 'smol-toml';
import {
  isObject,
  lineEnd,
  lineEnding,
  lineStart,
  ParseError,
  plain,
  type Edit,
  type Entry,
  type Format,
} from './edit.ts';

export const toml: Format = {
  parse: parseText,
  settings: (text, path, entry) => {
    const eol = lineEnding(text);
    const block = tableText(path, entry).join(eol) + eol;
    const own = rangesOf(text, path);
    const [first, ...others] = own;
    if (first) {
      const replace = { at: first.start, remove: first.end - first.start, insert: block };
      return [
        [replace, ...others.map(removal)],
        ...[append(text, block, eol)].map((edit) => [...own.map(removal), edit]),
      ];
    }
    return [[append(text, block, eol)]];
  },
  removals: (text, path) => {
    const own = rangesOf(text, path);
    return own.length > 0
      ? [own.map((range) => removal(withGap(text, range))), own.map(removal)]
      : [];
  },
};

function parseText(text: string): Entry {
  try {
    return plain(parse(text, { integersAsBigInt: 'asNeeded' }) as Entry);
  } catch (error) {
    throw new ParseError((error as Error).message.split('\n')[0]);
  }
}

interface Range {
  start: number;
  end: number;
}

const removal = ({ start, end }: Range): Edit => ({ at: start, remove: end - start, insert: '' });

/** With the blank line in front of the table, unless it separates what remains. */
function withGap(text: string, { start, end }: Range): Range {
  const gap = /(?<=\n)\r?\n$/.exec(text.slice(0, start))?.[0] ?? '';
  const isSeparate = /^(\r?\n|$)/.test(text.slice(end));
  return isSeparate ? { start: start - gap.length, end } : { start, end };
}

function append(text: string, block: string, eol: string): Edit {
  const gap = text === '' ? '' : text.endsWith('\n') ? eol : eol + eol;
  return { at: text.length, remove: 0, insert: gap + block };
}

function tableText(path: readonly string[], entry: Entry): string[] {
  const lines = Object.entries(entry).map(
    ([name, value]) => `${keyText(name)} = ${valueText(value)}`,
  );
  return [`[${path.map(keyText).join('.')}]`, ...lines];
}

const keyText = (name: string): string => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));

function valueText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if (isObject(value)) {
    const pairs = Object.entries(value).map(
      ([name, own]) => `${keyText(name)} = ${valueText(own)}`,
    );
    return pairs.length > 0 ? `{ ${pairs.join(', ')} }` : '{}';
  }
  if (typeof value === 'string') return JSON.stringify(value).replaceAll('\u007f', '\\u007F');
  return value instanceof Date ? value.toISOString() : String(value);
}

/** Text of the entry: its tables, and statements in other tables that belong to it. */
function rangesOf(text: string, path: readonly string[]): Range[] {
  const isOwn = (keys: readonly string[]) => path.every((name, at) => keys[at] === name);
  const found: Range[] = [];
  let table: string[] = [];
  for (const statement of statements(text)) {
    if (statement.isHeader) table = statement.keys;
    const keys = statement.isHeader ? table : [...table, ...statement.keys];
    if (!isOwn(keys)) continue;
    const previous = found.at(-1);
    const between = previous && text.slice(previous.end, statement.start);
    if (previous && between!.trim() === '') previous.end = statement.end;
    else found.push({ start: statement.start, end: statement.end });
  }
  return found;
}

interface Statement extends Range {
  isHeader: boolean;
  keys: string[];
}

/** Splits a valid document into table headers and key-value pairs, each with its line ending. */
function* statements(text: string): Generator<Statement> {
  for (let at = 0; at < text.length;) {
    const start = lineStart(text, at);
    const first = /^[ \t]*/.exec(text.slice(start))![0].length + start;
    if (/^(#|\r?\n|$)/.test(text.slice(first, first + 2))) {
      at = lineEnd(text, first);
      continue;
    }
    const isHeader = text[first] === '[';
    const end = lineEnd(text, isHeader ? headerEnd(text, first) : valueEnd(text, first));
    const source = isHeader
      ? /^\[{1,2}(.*?)\]{1,2}\s*(#.*)?$/s.exec(text.slice(first, end).trimEnd())?.[1]
      : text.slice(first, keyEnd(text, first));
    yield { start, end, isHeader, keys: keysOf(source ?? '') };
    at = end;
  }
}

/** Reads a dotted key by letting the parser read it. */
function keysOf(source: string): string[] {
  const keys: string[] = [];
  try {
    let value: unknown = parse(`${source} = 1`);
    for (; isObject(value); value = value[keys.at(-1)!]) keys.push(Object.keys(value)[0]!);
  } catch {
    // Not a key of this entry.
  }
  return keys;
}

function headerEnd(text: string, from: number): number {
  return scan(text, from, (char, _depth) => char === '\n');
}

const keyEnd = (text: string, from: number): number => scan(text, from, (char) => char === '=');

const valueEnd = (text: string, from: number): number =>
  scan(text, keyEnd(text, from) + 1, (char, depth) => char === '\n' && depth === 0);

/** The offset of the first character that matches, outside of strings and comments. */
function scan(
  text: string,
  from: number,
  matches: (char: string, depth: number) => boolean,
): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const char = text[at]!;
    if (matches(char, depth)) return at;
    if (char === '#') at = lineEnd(text, at) - 2;
    else if (char === '"' || char === "'") at = stringEnd(text, at, char) - 1;
    else if (char === '[' || char === '{') depth += 1;
    else if (char === ']' || char === '}') depth -= 1;
  }
  return text.length;
}

function stringEnd(text: string, from: number, quote: string): number {
  const isLong = text.startsWith(quote.repeat(3), from);
  const close = isLong ? quote.repeat(3) : quote;
  for (let at = from + close.length; at < text.length; at++) {
    if (quote === '"' && text[at] === '\\') at += 1;
    else if (text.startsWith(close, at)) {
      let end = at + close.length;
      // A long string may end with up to two additional quotes.
      while (isLong && text[end] === quote && end < at + 5) end += 1;
      return end;
    }
  }
  return text.length;
}
