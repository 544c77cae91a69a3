// Markdown of pages and deliverables as elements. The text is hostile: markup in it stays text, pictures become links, and only
// http addresses are links.
import type { ComponentChildren } from 'preact';
import { inline } from './markdown-inline.tsx';

const maxDepth = 6;
const maxLines = 20_000;

export function Markdown({ text }: { text: string }) {
  const lines = text.split('\n');
  return (
    <div class="markdown">
      {blocks(lines.slice(0, maxLines), 0)}
      {lines.length > maxLines ? <p class="dim">The rest is not shown here.</p> : null}
    </div>
  );
}

const fence = /^\s{0,3}(```+|~~~+)\s*(\S*)/;
const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const rule = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const item = /^(\s{0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const quote = /^\s{0,3}>\s?/;
const tableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** The elements of some lines. Each step takes the lines of one block. */
function blocks(lines: readonly string[], depth: number): ComponentChildren[] {
  const found: ComponentChildren[] = [];
  for (let at = 0; at < lines.length;) {
    const { element, next } = block(lines, at, depth);
    if (element !== null) found.push(element);
    at = next;
  }
  return found;
}

interface Block {
  element: ComponentChildren;
  /** The line after the block. */
  next: number;
}

function block(lines: readonly string[], at: number, depth: number): Block {
  const line = lines[at]!;
  if (line.trim() === '') return { element: null, next: at + 1 };
  const title = heading.exec(line);
  if (title)
    return { element: <Heading level={title[1]!.length} text={title[2]!} />, next: at + 1 };
  if (fence.test(line)) return codeBlock(lines, at);
  if (rule.test(line)) return { element: <hr />, next: at + 1 };
  if (quote.test(line)) return quoteBlock(lines, at, depth);
  if (item.test(line)) return listBlock(lines, at, depth);
  if (line.includes('|') && tableRule.test(lines[at + 1] ?? '') && lines[at + 1]!.includes('|'))
    return tableBlock(lines, at);
  return paragraph(lines, at);
}

/** Headings of the page are one level below those of the dashboard. */
function Heading({ level, text }: { level: number; text: string }) {
  const Name = `h${Math.min(level + 2, 6)}` as 'h3';
  return <Name class={`heading-${level}`}>{inline(text)}</Name>;
}

function codeBlock(lines: readonly string[], at: number): Block {
  const mark = fence.exec(lines[at]!)![1]!;
  let end = at + 1;
  while (end < lines.length && !lines[end]!.trimStart().startsWith(mark)) end++;
  const code = lines.slice(at + 1, end).join('\n');
  return { element: <pre tabIndex={0}>{code}</pre>, next: end + 1 };
}

function quoteBlock(lines: readonly string[], at: number, depth: number): Block {
  let end = at;
  while (end < lines.length && quote.test(lines[end]!)) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(quote, ''));
  return { element: <blockquote>{nested(inner, depth)}</blockquote>, next: end };
}

const nested = (lines: readonly string[], depth: number): ComponentChildren =>
  depth >= maxDepth ? lines.join('\n') : blocks(lines, depth + 1);

function listBlock(lines: readonly string[], at: number, depth: number): Block {
  const isOrdered = /\d/.test(item.exec(lines[at]!)![2]!);
  const items: string[][] = [];
  let indent = 0;
  let next = at;
  for (; next < lines.length; next++) {
    const line = lines[next]!;
    const start = item.exec(line);
    if (start && /\d/.test(start[2]!) === isOrdered && start[1]!.length < Math.max(indent, 1)) {
      indent = start[0].length;
      items.push([line.slice(indent)]);
    } else if (line.trim() === '' && isIndented(lines[next + 1], indent)) items.at(-1)!.push('');
    else if (isIndented(line, Math.min(indent, 2))) items.at(-1)!.push(dedent(line, indent));
    else if (line.trim() === '' && item.test(lines[next + 1] ?? '')) continue;
    else break;
  }
  const children = items.map((own, i) => (
    <li key={i}>{own.length === 1 ? inline(own[0]!) : nested(own, depth)}</li>
  ));
  return { element: isOrdered ? <ol>{children}</ol> : <ul>{children}</ul>, next };
}

const isIndented = (line: string | undefined, indent: number): boolean =>
  line !== undefined && line.trim() !== '' && /^\s*/.exec(line)![0].length >= indent;

const dedent = (line: string, indent: number): string =>
  line.slice(Math.min(indent, /^\s*/.exec(line)![0].length));

function tableBlock(lines: readonly string[], at: number): Block {
  let end = at + 2;
  while (end < lines.length && lines[end]!.includes('|')) end++;
  const element = (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {cellsOf(lines[at]!).map((cell, i) => (
              <th key={i} scope="col">
                {inline(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.slice(at + 2, end).map((line, row) => (
            <tr key={row}>
              {cellsOf(line).map((cell, i) => (
                <td key={i}>{inline(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  return { element, next: end };
}

const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll(String.raw`\|`, '|'));

function paragraph(lines: readonly string[], at: number): Block {
  let end = at + 1;
  while (end < lines.length && !startsBlock(lines[end]!)) end++;
  return { element: <p>{inline(lines.slice(at, end).join('\n'))}</p>, next: end };
}

const startsBlock = (line: string): boolean =>
  line.trim() === '' || [heading, fence, rule, quote, item].some((start) => start.test(line));
