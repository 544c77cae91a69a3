// Folding hides only lines that the shown lines imply.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fold } from '../../../../src/kinds/command/output/fold.ts';
import { splitLines } from '../../../../src/kinds/command/output/log.ts';

function folded(texts: readonly string[]): string[] {
  const lines = fold(splitLines(Buffer.from(texts.map((text) => `${text}\n`).join('')), 0, true));
  for (let i = 1; i < lines.length; i++) assert.equal(lines[i]!.at, lines[i - 1]!.end);
  return lines.map(({ text }) => text);
}

const many = (count: number, text: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => text(i));

describe('folded', () => {
  test('lines that only count up', () => {
    const steps = many(30, (i) => `step ${i} of 30`);
    assert.deepEqual(folded(['x', ...steps, 'y']), [
      ...['x', 'step 0 of 30', '[… 28 lines that count up like this …]', 'step 29 of 30', 'y'],
    ]);
    const passed = many(400, (i) => `PASS tests/mod${i}.test.ts (${i} ms)`);
    assert.equal(folded(passed).length, 3);
  });

  test('equal lines, even with different timestamps', () => {
    const ports = ['port 80', 'port 80', 'port 80', 'port 80', 'port 80', 'port 81'];
    assert.deepEqual(folded(ports), [
      ...['port 80', '[… 3 more lines like this …]', 'port 80', 'port 81'],
    ]);
    const beats = many(50, (i) => `2026-11-18T09:${10 + i}:${((i * 37) % 50) + 10}.12Z heartbeat`);
    assert.deepEqual(folded(beats), [beats[0], '[… 48 more lines like this …]', beats[49]]);
    assert.deepEqual(folded(['a', '', '', '', '', 'b']), ['a', '', 'b']);
  });
});

describe('never folded', () => {
  const kept: Record<string, string[]> = {
    'values that change': many(30, (i) => `epoch ${i} loss ${((i * 7919) % 1000) / 1000}`),
    'values that change by unequal steps': many(40, (i) => `rows ${i * i}`),
    'a few figures': [
      'run 1: 53 ms',
      'run 2: 80 ms',
      'run 3: 51 ms',
      'run 4: 55 ms',
      'b',
      'b',
      'b',
    ],
    'places in files': many(30, (i) => `src/a.ts(${i + 1},7): error TS2322: Type 'x' is wrong.`),
    'equal places': many(10, () => './main.go:4:14: undefined: foo'),
    'places in a list of one file': many(30, (i) => `  ${i + 1}:7  error  Unexpected var  no-var`),
    'frames of a traceback': many(30, (i) => `  File "/home/dev/a.py", line ${i + 1}, in f`),
  };
  for (const [name, lines] of Object.entries(kept))
    test(name, () => assert.deepEqual(folded(lines), lines));
});
