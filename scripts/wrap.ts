// Wraps the prose of Markdown pages, so that a change of one sentence is a change of few lines. Tables, code blocks, headings,
// HTML and front matter stay as they are.
const maxColumns = 110;

/** Inline code and links are never split. */
const token = /(?:`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\S)+/g;
const verbatim = /^\s*(?:```|~~~|\||#|<|>|\[[^\]]+\]:)/;
const bullet = /^(\s*)([-*+] |\d+[.)] )?(.*)$/;
/** At the start of a line, these would begin a list, a heading or a quotation. */
const marks = /^(?:[-*+]|\d+[.)]|#+|>|=+|-+)$/;

export function wrapMarkdown(text: string): string {
  const lines = text.split('\n');
  const wrapped: string[] = [];
  let fenced = false;
  let i = lines[0] === '---' ? lines.indexOf('---', 1) + 1 : 0;
  wrapped.push(...lines.slice(0, i));
  while (i < lines.length) {
    const line = lines[i++]!;
    if (/^\s*(?:```|~~~)/.test(line)) fenced = !fenced;
    if (fenced || line.trim() === '' || verbatim.test(line)) {
      wrapped.push(line);
      continue;
    }
    const [, indent = '', mark = '', first = ''] = bullet.exec(line)!;
    const inner = indent + ' '.repeat(mark.length);
    const block = [first];
    while (i < lines.length && continues(lines[i]!, inner, mark)) block.push(lines[i++]!.trim());
    const fits = block.every((part) => (inner + part).length <= maxColumns);
    if (fits) wrapped.push(indent + mark + first, ...block.slice(1).map((part) => inner + part));
    else wrapped.push(...fill(block.join(' '), indent + mark, inner));
  }
  return wrapped.join('\n');
}

function continues(line: string, inner: string, mark: string): boolean {
  if (line.trim() === '' || verbatim.test(line) || /^\s*(?:[-*+] |\d+[.)] )/.test(line))
    return false;
  return mark === '' || line.startsWith(inner);
}

function fill(text: string, head: string, inner: string): string[] {
  const lines: string[] = [];
  let line = head;
  let isEmpty = true;
  for (const [word] of text.matchAll(token)) {
    if (!isEmpty && line.length + 1 + word.length > maxColumns && !marks.test(word)) {
      lines.push(line);
      line = inner + word;
    } else {
      line += isEmpty ? word : ` ${word}`;
    }
    isEmpty = false;
  }
  return [...lines, line];
}
