// Shows what an edit changes: the changed lines with a little context.

const contextLines = 3;

/** A unified diff of one region. Empty if the texts are equal. */
export function diffText(before: string, after: string, path: string): string {
  if (before === after) return '';
  const old = linesOf(before);
  const next = linesOf(after);
  let head = 0;
  while (head < old.length && head < next.length && old[head] === next[head]) head += 1;
  let tail = 0;
  const room = Math.min(old.length, next.length) - head;
  while (tail < room && old[old.length - 1 - tail] === next[next.length - 1 - tail]) tail += 1;
  const from = Math.max(0, head - contextLines);
  const more = Math.min(contextLines, tail);
  const rows = [
    ...old.slice(from, head).map((line) => ` ${line}`),
    ...old.slice(head, old.length - tail).map((line) => `-${line}`),
    ...next.slice(head, next.length - tail).map((line) => `+${line}`),
    ...old.slice(old.length - tail, old.length - tail + more).map((line) => ` ${line}`),
  ];
  const range = (count: number) => `${count === 0 ? from : from + 1},${count}`;
  const oldCount = old.length - tail + more - from;
  const nextCount = next.length - tail + more - from;
  const title = `--- ${path}\n+++ ${path}\n@@ -${range(oldCount)} +${range(nextCount)} @@\n`;
  return title + rows.map((row) => `${row.replace(/\r$/, '')}\n`).join('');
}

const linesOf = (text: string): string[] => {
  const lines = text.split('\n');
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
};
