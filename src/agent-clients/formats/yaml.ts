// YAML config files (Goose). Finds the place with a parser that keeps positions, and inserts text there.
import {
  isMap,
  isScalar,
  parseDocument,
  stringify,
  type Document,
  type Pair,
  type YAMLMap,
} from 'yaml';
import {
  indentAt,
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

export const yaml: Format = {
  parse: parseText,
  settings: (text, path, entry) => {
    const document = documentOf(text);
    const eol = lineEnding(text);
    const existing = pairAt(document, path);
    if (existing) return [replaceValue(text, existing, entry, eol)];
    return insertions(text, document, { path, entry }, eol);
  },
  removals: (text, path) => {
    const document = documentOf(text);
    return path
      .map((_name, at) => path.slice(0, path.length - at))
      .flatMap((part) => {
        const pair = pairAt(document, part);
        const parent =
          part.length > 1 ? pairAt(document, part.slice(0, -1))?.value : document.contents;
        return pair && isMap(parent) ? removePair(text, pair, parent) : [];
      });
  },
};

function documentOf(text: string): Document {
  const document = parseDocument(text, { keepSourceTokens: true, logLevel: 'silent' });
  const [problem] = document.errors;
  if (problem) throw new ParseError(problem.message.split('\n')[0]);
  return document;
}

function parseText(text: string): Entry {
  let value: unknown;
  try {
    value = plain(documentOf(text).toJS({ maxAliasCount: 100 }) as unknown);
  } catch (error) {
    throw error instanceof ParseError ? error : new ParseError((error as Error).message);
  }
  if (value === null || value === undefined) return plain({});
  if (!isObject(value)) throw new ParseError('the file does not contain a mapping');
  return value;
}

function pairAt(document: Document, path: readonly string[]): Pair | undefined {
  let node: unknown = document.contents;
  let pair: Pair | undefined;
  for (const name of path) {
    if (!isMap(node)) return undefined;
    pair = node.items.find(({ key }) => isScalar(key) && key.value === name);
    if (!pair) return undefined;
    node = pair.value;
  }
  return pair;
}

function insertions(
  text: string,
  document: Document,
  { path, entry }: { path: readonly string[]; entry: Entry },
  eol: string,
): Edit[][] {
  const depth = path.findIndex((_name, at) => !pairAt(document, path.slice(0, at + 1)));
  const parentPair = depth === 0 ? undefined : pairAt(document, path.slice(0, depth));
  const parent = parentPair ? parentPair.value : document.contents;
  const value = path
    .slice(depth)
    .toReversed()
    .reduce<unknown>((inner, name) => ({ [name]: inner }), entry) as Entry;
  if (isMap(parent) && parent.flow) return [insertFlow(parent, value)];
  if (isMap(parent) && parent.items.length > 0) return insertBlock(text, parent, value, eol);
  if (parentPair) return [fillEmpty(text, parentPair, value, eol)];
  const gap = text === '' || text.endsWith('\n') ? '' : eol;
  return [text.length, documentEnd(text)].map((at) => [
    { at, remove: 0, insert: gap + blockText(value, '', eol) },
  ]);
}

/** The offset of a document end marker. */
function documentEnd(text: string): number {
  const found = text.search(/^\.\.\.\s*$/m);
  return found < 0 ? text.length : found;
}

function insertBlock(text: string, parent: YAMLMap, value: Entry, eol: string): Edit[][] {
  const first = parent.items[0]!.key as { range: [number, number, number] };
  const indent = indentAt(text, first.range[0]);
  const block = blockText(value, indent, eol);
  const [, end] = parent.range!;
  const isLineStart = text[end - 1] === '\n' || end === 0;
  const after = isLineStart ? end : lineEnd(text, end);
  const places = [after, end, documentEnd(text), lineStart(text, first.range[0])];
  return places.map((at) => {
    const gap = at > 0 && text[at - 1] !== '\n' ? eol : '';
    const rest = at < text.length && gap !== '' && text[at] !== '\n' && text[at] !== '\r';
    const insert = gap + (gap === '' || rest ? block : block.slice(0, -eol.length));
    return [{ at, remove: 0, insert }];
  });
}

function insertFlow(parent: YAMLMap, value: Entry): Edit[] {
  const [name, own] = Object.entries(value)[0]!;
  const separator = parent.items.length > 0 ? ', ' : '';
  const insert = `${JSON.stringify(name)}: ${JSON.stringify(own)}${separator}`;
  return [{ at: parent.range![0] + 1, remove: 0, insert }];
}

/** The key exists without a value, or with null. */
function fillEmpty(text: string, pair: Pair, value: Entry, eol: string): Edit[] {
  const key = pair.key as { range: [number, number, number] };
  const node = pair.value as { range?: [number, number, number] } | null;
  const indent = `${indentAt(text, key.range[0])}  `;
  const colon = text.indexOf(':', key.range[1]);
  const source = node?.range ? text.slice(node.range[0], node.range[1]) : '';
  const end = lineEnd(text, colon);
  const gap = text[end - 1] === '\n' ? '' : eol;
  const fill = { at: end, remove: 0, insert: gap + blockText(value, indent, eol) };
  return source.trim() === ''
    ? [fill]
    : [{ at: node!.range![0], remove: source.length, insert: '' }, fill];
}

function replaceValue(text: string, pair: Pair, entry: Entry, eol: string): Edit[] {
  const key = pair.key as { range: [number, number, number] };
  const node = pair.value as { range: [number, number, number]; flow?: boolean };
  const [start, end] = node.range;
  if (node.flow || !isMap(node))
    return [{ at: start, remove: end - start, insert: JSON.stringify(entry) }];
  const indent = `${indentAt(text, key.range[0])}  `;
  const from = lineStart(text, start);
  const block = blockText(entry, indent, eol);
  const isWhole = text[end - 1] === '\n';
  return [{ at: from, remove: end - from, insert: isWhole ? block : block.slice(0, -eol.length) }];
}

function removePair(text: string, pair: Pair, parent: YAMLMap): Edit[][] {
  const key = pair.key as { range: [number, number, number] };
  const node = pair.value as { range: [number, number, number] } | null;
  const end = node?.range ? node.range[1] : key.range[1];
  if (parent.flow) {
    const at = key.range[0];
    const rest = /^\s*,\s*/.exec(text.slice(end))?.[0] ?? '';
    const before = /,\s*$/.exec(text.slice(0, at))?.[0] ?? '';
    return rest === ''
      ? [[{ at: at - before.length, remove: end - at + before.length, insert: '' }]]
      : [[{ at, remove: end - at + rest.length, insert: '' }]];
  }
  const at = lineStart(text, key.range[0]);
  const to = text[end - 1] === '\n' ? end : lineEnd(text, end);
  return [[{ at, remove: to - at, insert: '' }]];
}

function blockText(value: Entry, indent: string, eol: string): string {
  const lines = stringify(value, { lineWidth: 0 }).trimEnd().split('\n');
  return lines.map((line) => indent + line + eol).join('');
}
