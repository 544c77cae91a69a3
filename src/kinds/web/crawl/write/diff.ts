// Compares two texts line by line (Myers) and returns hunks with little context. The number of edits is limited: texts
// with little in common are reported as rewritten, because comparing them could take minutes.
const maxEdits = 2000;
const contextLines = 2;

interface TextDiff {
  added: number;
  removed: number;
  /** Diff hunks. Undefined when the whole text was rewritten. */
  text?: string;
}

type Edit = [op: ' ' | '-' | '+', line: string];

export function diffLines(before: string, after: string): TextDiff {
  const a = before.split('\n');
  const b = after.split('\n');
  const edits = shortestEdit(a, b);
  if (!edits) return { added: b.length, removed: a.length };
  const added = edits.filter(([op]) => op === '+').length;
  const removed = edits.filter(([op]) => op === '-').length;
  return { added, removed, text: hunks(edits) };
}

function shortestEdit(a: string[], b: string[]): Edit[] | undefined {
  const offset = maxEdits + 1;
  const furthest = new Int32Array(2 * offset + 1);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= Math.min(maxEdits, a.length + b.length); d++) {
    trace.push(furthest.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && furthest[offset + k - 1]! < furthest[offset + k + 1]!);
      let x = down ? furthest[offset + k + 1]! : furthest[offset + k - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[offset + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace);
    }
  }
  return undefined;
}

function walkBack(a: string[], b: string[], trace: Int32Array[]): Edit[] {
  const edits: Edit[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const row = trace[d]!;
    const at = (k: number) => row[k + d + 1]!;
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : at(fromK);
    const fromY = d === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) {
      edits.push([' ', a[--x]!]);
      y--;
    }
    if (d === 0) break;
    if (down) edits.push(['+', b[--y]!]);
    else edits.push(['-', a[--x]!]);
  }
  return edits.toReversed();
}

function hunks(edits: Edit[]): string {
  const keep = new Set<number>();
  for (const [i, [op]] of edits.entries()) {
    if (op === ' ') continue;
    for (let j = i - contextLines; j <= i + contextLines; j++) keep.add(j);
  }
  const lines: string[] = [];
  let line = 1;
  let open = false;
  for (const [i, [op, text]] of edits.entries()) {
    if (keep.has(i)) {
      if (!open) lines.push(`@@ ${line} @@`);
      lines.push(`${op}${text}`);
    }
    open = keep.has(i);
    if (op !== '-') line++;
  }
  return lines.join('\n');
}
