// JSON config files, with comments and trailing commas where the client accepts them.
import {
  parseTree,
  printParseErrorCode,
  type Node,
  type ParseError as JsonProblem,
} from 'jsonc-parser';
import { setOwn } from '../../runtime/by-name.ts';
import {
  indentAt,
  lineEnding,
  ParseError,
  plain,
  isObject,
  type Edit,
  type Entry,
  type Format,
} from './edit.ts';

export const json = jsonFormat(true);
export const jsonWithComments = jsonFormat(false);

function jsonFormat(isStrict: boolean): Format {
  return {
    parse: (text) => parseText(text, isStrict),
    settings: (text, path, entry) => [set(text, path, entry)],
    removals: (text, path) => [
      remove(text, path, gapBefore),
      remove(text, path, (_text, at) => at),
    ],
  };
}

function parseText(text: string, isStrict: boolean): Entry {
  if (text.trim() === '') return plain({});
  const value = isStrict ? strictValue(text) : valueOf(rootOf(text));
  if (!isObject(value)) throw new ParseError('the file does not contain an object');
  return value;
}

function strictValue(text: string): unknown {
  try {
    return plain(JSON.parse(text) as unknown);
  } catch (error) {
    throw new ParseError((error as Error).message.slice(0, 200));
  }
}

function rootOf(text: string): Node {
  const problems: JsonProblem[] = [];
  let root: Node | undefined;
  try {
    root = parseTree(text, problems, { allowTrailingComma: true });
  } catch (error) {
    throw new ParseError(String(error));
  }
  const [first] = problems;
  if (first) {
    const line = text.slice(0, first.offset).split('\n').length;
    throw new ParseError(`${printParseErrorCode(first.error)} in line ${line}`);
  }
  if (!root) throw new ParseError('the file is empty');
  return root;
}

/** The last of several equal names applies, as in JSON.parse. */
function valueOf(node: Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(valueOf);
  if (node.type !== 'object') return node.value as unknown;
  const value: Entry = Object.create(null) as Entry;
  for (const { children: [key, own] = [] } of node.children ?? [])
    setOwn(value, String(key!.value), own ? valueOf(own) : undefined);
  return value;
}

const propertiesOf = (node: Node, name: string): Node[] =>
  (node.children ?? []).filter(({ children: [key] = [] }) => key?.value === name);

const childOf = (node: Node, name: string): Node | undefined =>
  node.type === 'object' ? propertiesOf(node, name).at(-1)?.children?.[1] : undefined;

function set(text: string, path: readonly string[], entry: Entry): Edit[] {
  const eol = lineEnding(text);
  if (text.trim() === '') {
    const all = path.toReversed().reduce<unknown>((value, name) => ({ [name]: value }), entry);
    return [{ at: text.length, remove: 0, insert: print(all, '', { unit: '  ', eol }) + eol }];
  }
  const root = rootOf(text);
  const unit = unitOf(text, root);
  let parent = root;
  let at = 0;
  for (let child = childOf(parent, path[at]!); child && at < path.length;) {
    parent = child;
    at += 1;
    child = at < path.length ? childOf(parent, path[at]!) : undefined;
  }
  if (at === path.length) {
    const insert = print(entry, indentAt(text, parent.offset), { unit, eol });
    return [{ at: parent.offset, remove: parent.length, insert }];
  }
  if (parent.type !== 'object') return [];
  const value = path
    .slice(at + 1)
    .toReversed()
    .reduce<unknown>((inner, name) => ({ [name]: inner }), entry);
  return insertProperty(text, parent, [path[at]!, value], { unit, eol });
}

interface Style {
  /** Undefined: everything in one line. */
  unit: string | undefined;
  eol: string;
}

function insertProperty(
  text: string,
  parent: Node,
  [name, value]: [string, unknown],
  { unit, eol }: { unit: string; eol: string },
): Edit[] {
  const base = indentAt(text, parent.offset);
  const open = parent.offset + 1;
  const last = parent.children?.at(-1);
  if (!last) {
    const inside = text.slice(open, parent.offset + parent.length - 1);
    const property = `${JSON.stringify(name)}: ${print(value, base + unit, { unit, eol })}`;
    const close = inside.includes('\n') ? '' : eol + base;
    return [{ at: open, remove: 0, insert: eol + base + unit + property + close }];
  }
  const end = last.offset + last.length;
  const isInline = !text.slice(open, last.offset).includes('\n');
  if (isInline) {
    const property = `${JSON.stringify(name)}: ${print(value, '', { unit: undefined, eol })}`;
    const comma = commaAfter(text, end);
    return comma === undefined
      ? [{ at: end, remove: 0, insert: `, ${property}` }]
      : [{ at: comma + 1, remove: 0, insert: ` ${property}` }];
  }
  const indent = indentAt(text, parent.children![0]!.offset);
  const property = `${indent}${JSON.stringify(name)}: ${print(value, indent, { unit, eol })}`;
  const comma = commaAfter(text, end);
  const after = comma === undefined ? end : comma + 1;
  const place = endOfLineComment(text, after);
  const insert = eol + property;
  if (comma !== undefined) return [{ at: place, remove: 0, insert }];
  if (place === end) return [{ at: end, remove: 0, insert: `,${insert}` }];
  return [
    { at: end, remove: 0, insert: ',' },
    { at: place, remove: 0, insert },
  ];
}

/** A comment behind the last property belongs to it, so a new property goes behind the comment. */
function endOfLineComment(text: string, at: number): number {
  const comment = /^[ \t]*(?:\/\*(?:(?!\*\/)[^\r\n])*\*\/[ \t]*)*(?:\/\/[^\r\n]*)?/.exec(
    text.slice(at),
  )![0];
  const isLast = /^(\r?\n|$)/.test(text.slice(at + comment.length));
  return isLast && comment.trim() !== '' ? at + comment.trimEnd().length : at;
}

/** The offset of the comma that follows a property, behind whitespace and comments. */
function commaAfter(text: string, end: number): number | undefined {
  const gap = /^(?:\s|\/\/[^\r\n]*|\/\*[^]*?\*\/)*/.exec(text.slice(end))![0];
  return text[end + gap.length] === ',' ? end + gap.length : undefined;
}

function remove(
  text: string,
  path: readonly string[],
  startOf: (text: string, offset: number) => number,
): Edit[] {
  const name = path.at(-1)!;
  let parent: Node | undefined = rootOf(text);
  for (const each of path.slice(0, -1)) parent = parent && childOf(parent, each);
  if (parent?.type !== 'object') return [];
  const own = propertiesOf(parent, name);
  const others = (parent.children ?? []).filter((property) => !own.includes(property));
  const edits = own.map(({ offset, length }): Edit => {
    const end = offset + length;
    const comma = commaAfter(text, end);
    const at = startOf(text, offset);
    const to = comma !== undefined && !hasComment(text, end, comma) ? comma + 1 : end;
    return { at, remove: to - at, insert: '' };
  });
  // The comma in front of a last property would be left over.
  const last = parent.children?.at(-1);
  const previous = others.at(-1);
  const tail = own.at(-1);
  const isLast = last !== undefined && last === tail;
  if (isLast && previous && commaAfter(text, last.offset + last.length) === undefined) {
    const comma = commaAfter(text, previous.offset + previous.length);
    const isFree =
      comma !== undefined && !edits.some(({ at, remove: n }) => comma >= at && comma < at + n);
    if (isFree) edits.push({ at: comma, remove: 1, insert: '' });
  }
  return edits;
}

const hasComment = (text: string, from: number, to: number): boolean =>
  /\S/.test(text.slice(from, to));

/** The offset where the whitespace in front of a property starts. */
const gapBefore = (text: string, offset: number): number => text.slice(0, offset).trimEnd().length;

function unitOf(text: string, root: Node): string {
  const first = root.children?.[0];
  const isOwnLine = first && text.slice(root.offset, first.offset).includes('\n');
  const indent = isOwnLine ? indentAt(text, first.offset) : '';
  return indent === '' ? '  ' : indent;
}

function print(value: unknown, indent: string, { unit, eol }: Style): string {
  if (unit === undefined) return JSON.stringify(value);
  return JSON.stringify(value, undefined, unit)
    .split('\n')
    .join(eol + indent);
}
