// Renders data tables as GFM. Layout tables are read cell by cell.
import { elements, isElement, rawText } from '../read/dom.ts';
import type { AnyNode, Element } from '../read/dom.ts';

interface CellWriter {
  flow(node: AnyNode): string;
  /** On one line, with escaped pipes. */
  cell(cell: Element): string;
  title(caption: AnyNode): string;
  includes(node: AnyNode): boolean;
}

const maxColumns = 60;
const maxSpan = 20;
const maxRowSpan = 200;
const maxRepeatChars = 60;

export function renderTable(table: Element, writer: CellWriter): string {
  const rows = rowsOf(table).filter((row) => writer.includes(row));
  const caption = table.children.find((child) => isElement(child) && child.name === 'caption');
  const title = caption && writer.includes(caption) ? writer.title(caption) : '';
  const body = isLayout(table, rows)
    ? rows
        .flatMap(layoutCells)
        .map((cell) => writer.flow(cell))
        .filter(Boolean)
        .join('\n\n')
    : dataTable(rows, writer);
  return title === '' ? body : `${title}\n\n${body}`;
}

function dataTable(rows: readonly Element[], writer: CellWriter): string {
  const spans: Spanning[] = [];
  const lines = rows
    .map((row) => rowCells(row, writer, spans))
    .filter((cells) => cells.some(Boolean));
  const width = Math.max(0, ...lines.map((cells) => cells.length));
  if (width === 0) return '';
  const full = lines.map((cells) => [
    ...cells,
    ...Array.from({ length: width - cells.length }, () => ''),
  ]);
  const text = full.map((cells) => `| ${cells.join(' | ')} |`);
  text.splice(1, 0, `|${' --- |'.repeat(width)}`);
  return text.join('\n');
}

/** Cells of earlier rows that span this one, by column. */
type Spanning = { text: string; rows: number } | undefined;

/**
 * Puts every text in its own column. A cell that spans rows is repeated if it is short; otherwise the spanned
 * cells stay empty.
 */
function rowCells(row: Element, writer: CellWriter, spans: Spanning[]): string[] {
  const cells: string[] = [];
  const fromAbove = () => {
    for (let span = spans[cells.length]; span && span.rows > 0; span = spans[cells.length]) {
      span.rows--;
      cells.push(span.text);
    }
  };
  for (const cell of cellsOf(row)) {
    fromAbove();
    let text = writer.cell(cell);
    const rows = spanOf(cell.attribs.rowspan, maxRowSpan) - 1;
    for (let i = spanOf(cell.attribs.colspan, maxSpan); i > 0 && cells.length < maxColumns; i--) {
      if (rows > 0) spans[cells.length] = { text: text.length > maxRepeatChars ? '' : text, rows };
      cells.push(text);
      text = '';
    }
    if (cells.length >= maxColumns) break;
  }
  fromAbove();
  return cells;
}

const spanOf = (attribute = '1', max: number): number =>
  Math.min(Math.max(Number.parseInt(attribute, 10) || 1, 1), max);

function rowsOf(table: Element): Element[] {
  const rows: Element[] = [];
  for (const child of table.children) {
    if (!isElement(child)) continue;
    if (child.name === 'tr') rows.push(child);
    else if (/^(?:thead|tbody|tfoot)$/.test(child.name)) {
      for (const row of child.children) if (isElement(row) && row.name === 'tr') rows.push(row);
    }
  }
  return rows;
}

function cellsOf(row: Element): Element[] {
  return row.children.filter(
    (child): child is Element => isElement(child) && (child.name === 'td' || child.name === 'th'),
  );
}

/** Skips the line numbers next to code. */
function layoutCells(row: Element): Element[] {
  const cells = cellsOf(row);
  const isCode = cells.length > 1 && cells.some((cell) => elements(cell, 'pre').length > 0);
  return isCode ? cells.filter((cell) => !/^[\d\s]*$/.test(rawText(cell))) : cells;
}

const heavyTags = new Set([
  'table',
  'h1',
  'h2',
  'h3',
  'blockquote',
  'pre',
  'form',
  'article',
  'section',
  'ul',
  'ol',
]);

function isLayout(table: Element, rows: readonly Element[]): boolean {
  const { role } = table.attribs;
  if (role === 'presentation' || role === 'none') return true;
  const widest = Math.max(0, ...rows.map((row) => cellsOf(row).length));
  if (rows.length === 0 || widest < 2) return true;
  if (rows.some((row) => cellsOf(row).some((cell) => cell.name === 'th'))) return false;
  return rows.some((row) => cellsOf(row).some(hasHeavyContent));
}

function hasHeavyContent(cell: Element): boolean {
  const stack: Element[] = [cell];
  for (let seen = 0; stack.length > 0 && seen < 200; seen++) {
    for (const child of stack.pop()!.children) {
      if (!isElement(child)) continue;
      if (heavyTags.has(child.name)) return true;
      stack.push(child);
    }
  }
  return false;
}
