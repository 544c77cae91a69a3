// Errors in whole logs: line numbers, budgets, raw output, how far back a scan reads.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { findErrors } from '../../../../../src/kinds/command/output/errors/find.ts';
import { Log, type LogView } from '../../../../../src/kinds/command/output/log.ts';
import { systemClock as clock } from '../../../../../src/runtime/clock.ts';
import { tempFolder } from '../../../../helpers/folder.ts';

async function logOf(t: TestContext, content: string, view: Partial<LogView> = {}): Promise<Log> {
  const path = join(tempFolder(t), 'out');
  writeFileSync(path, content);
  const log = await Log.open({ path, start: 0, growing: false, ...view });
  t.after(() => log[Symbol.asyncDispose]());
  return log;
}

const clean = { maxBytes: 8192, raw: false };
const raw = { maxBytes: 8192, raw: true };

test('every line has its number, even beyond the first windows and in a ring', async (t) => {
  const noise = 'compiling a file\nlinking it\n'.repeat(40_000);
  const log = await logOf(t, `${noise}src/a.ts(3,1): error TS2322: wrong\n  detail\nfine\n`);
  const { text, matches, earlier } = await findErrors(log, clean, clock);
  assert.equal(text, '80001:src/a.ts(3,1): error TS2322: wrong\n80002-  detail');
  assert.deepEqual({ matches, earlier }, { matches: 1, earlier: undefined });
  const ring = await logOf(t, 'gone\nkept\nerror: x\n', { start: 5 });
  assert.equal((await findErrors(ring, clean, clock)).text, '2:error: x');
});

test('all errors of a compiler are shown, folded or raw', async (t) => {
  const lines = Array.from(
    { length: 24 },
    (_, i) =>
      `src/mod${i}.ts(1,14): error TS2322: Type 'number' is not assignable to type 'string'.`,
  );
  const log = await logOf(t, `${lines.join('\n')}\n`);
  for (const options of [clean, raw]) {
    const { text, matches } = await findErrors(log, options, clock);
    assert.deepEqual(
      text.split('\n'),
      lines.map((line, i) => `${i + 1}:${line}`),
    );
    assert.equal(matches, 24);
  }
});

test('equal errors are folded; raw shows them all, with their escapes', async (t) => {
  const log = await logOf(t, '\u001B[31merror: connection lost\u001B[0m\n'.repeat(10));
  assert.equal(
    (await findErrors(log, clean, clock)).text,
    '1:error: connection lost\n[… 8 more lines like this …]\n10:error: connection lost',
  );
  const lines = (await findErrors(log, raw, clock)).text.split('\n');
  assert.equal(lines.length, 10);
  assert.equal(lines[9], '10:\u001B[31merror: connection lost\u001B[0m');
});

test('the byte budget holds for long lines, many lines and wide characters', async (t) => {
  const contents = [
    `error: ${'x'.repeat(5000)}\n`.repeat(20),
    `error: ${'ü'.repeat(3_000_000)}\n`,
    Array.from({ length: 2000 }, (_, i) => `error: number ${i}\n    at f (src/a.js:${i}:1)\n`).join(
      '',
    ),
  ];
  for (const content of contents)
    for (const maxBytes of [200, 1000, 8192])
      for (const how of [clean, raw]) {
        const log = await logOf(t, content);
        const { text } = await findErrors(log, { ...how, maxBytes }, clock);
        assert.match(text, /error: /);
        assert.ok(Buffer.byteLength(text) <= maxBytes, `${Buffer.byteLength(text)} > ${maxBytes}`);
      }
});

test('when space is short, errors have priority over context', async (t) => {
  const block = (i: number) =>
    `error: number ${i}\n    at f (src/a.js:${i}:1)\n    at g (src/b.js:${i}:1)\n`;
  const log = await logOf(t, Array.from({ length: 40 }, (_, i) => block(i)).join(''));
  const { text, earlier } = await findErrors(log, { maxBytes: 2200, raw: false }, clock);
  assert.equal(earlier, undefined);
  assert.equal(text.match(/error: number/g)?.length, 40);
  assert.doesNotMatch(text, /src\/b\.js/);
});

test('following the cursor shows every error exactly once', async (t) => {
  const lines = Array.from({ length: 3000 }, (_, i) => `error: number ${i} of many`);
  const log = await logOf(t, `${lines.join('\nfine\n')}\n`);
  const shown: string[] = [];
  let to: number | undefined = log.size;
  while (to !== undefined) {
    const { text, earlier } = await findErrors(log, { maxBytes: 20_000, raw: false }, clock, to);
    const numbers = [...text.matchAll(/^\d+:(error: .*)$/gm)].map((match) => match[1]!);
    shown.unshift(...numbers);
    assert.ok(earlier === undefined || earlier < to);
    to = earlier;
  }
  assert.deepEqual(shown, lines);
});

test('errors far from the end are found', async (t) => {
  const log = await logOf(t, `error: early\n${'fine line of a log\n'.repeat(400_000)}`);
  let to: number | undefined = log.size;
  let text = '';
  while (to !== undefined && text === '') {
    const found = await findErrors(log, clean, clock, to);
    text = found.text;
    to = found.earlier;
  }
  assert.equal(text, '1:error: early');
});

test('a scan that takes too long reports where to continue', async (t) => {
  const log = await logOf(t, `error: early\n${'fine line of a log\n'.repeat(60_000)}`);
  let now = 0;
  const slow = { ...clock, now: () => (now += 1000) };
  const { text, earlier } = await findErrors(log, clean, slow);
  assert.equal(text, '');
  assert.ok(earlier !== undefined && earlier > 0);
});

test('byte offsets replace line numbers if counting takes too long', async (t) => {
  const log = await logOf(t, `${'fine line of a log\n'.repeat(200_000)}error: late\n`);
  let now = 0;
  // The scan of the last window succeeds, counting the lines before it times out.
  const slow = { ...clock, now: () => (now += 700) };
  const { text, numbered } = await findErrors(log, { maxBytes: 8192, raw: false }, slow);
  assert.equal(numbered, false);
  assert.equal(text, '@3800000:error: late');
});
