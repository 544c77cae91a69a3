// Ends `<![CDATA[` in HTML where a browser ends it: at the next `>`. The parser would read a comment up to
// `]]>`, which may be missing, and lose the rest of the page. Scripts and styles stay as they are.

const start = '<![CDATA[';
const opening = /<!\[CDATA\[|<(script|style)\b/gi;

export function endBogusComments(html: string): string {
  if (!html.includes(start)) return html;
  const parts: string[] = [];
  let from = 0;
  opening.lastIndex = 0;
  for (let match = opening.exec(html); match; match = opening.exec(html)) {
    const [mark, name] = match;
    if (name !== undefined) {
      const closing = new RegExp(`</${name}`, 'gi');
      closing.lastIndex = opening.lastIndex;
      if (!closing.test(html)) break;
      opening.lastIndex = closing.lastIndex;
      continue;
    }
    if (mark !== start) continue;
    const end = html.indexOf('>', opening.lastIndex);
    if (end < 0) break;
    parts.push(html.slice(from, match.index));
    from = end + 1;
    opening.lastIndex = from;
  }
  parts.push(html.slice(from));
  return parts.join('');
}
