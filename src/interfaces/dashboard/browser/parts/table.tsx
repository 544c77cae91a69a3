// A table of a view. It scrolls within its panel where the screen is narrow.
import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  title: string;
  /** Title for screen readers only. */
  isQuiet?: true;
  class?: string;
  cell(row: Row): ComponentChildren;
}

interface TableProps<Row> {
  caption: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  keyOf(row: Row): string | number;
  classOf?(row: Row): string;
}

export function Table<Row>({ caption, rows, columns, keyOf, classOf }: TableProps<Row>) {
  return (
    <div class="panel table-scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class="plain-table wide">
        <caption class="off-screen">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, class: name, isQuiet }) => (
              <th key={title} scope="col" class={name}>
                {isQuiet ? <span class="off-screen">{title}</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={classOf?.(row)}>
              {columns.map(({ title, class: name, cell }) => (
                <td key={title} class={name}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
