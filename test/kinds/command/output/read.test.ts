// Reading logs: cursors, budgets, cleaning and searching, on real files including huge and broken ones.
import assert from 'node:assert/strict';
import { closeSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { cleanText, partialEnd, shorten } from '../../../../src/kinds/command/output/text.ts';
import { grep, type GrepOptions } from '../../../../src/kinds/command/output/grep.ts';
import { Log } from '../../../../src/kinds/command/output/log.ts';
import {
  lineAt,
  offsetOfLine,
  readBothEnds,
  readForward,
  readTail,
} from '../../../../src/kinds/command/output/read.ts';
import { renderScreen } from '../../../../src/kinds/command/output/screen.ts';
import { systemClock as clock } from '../../../../src/runtime/clock.ts';
import { tempFolder } from '../../../helpers/folder.ts';

async function logOf(t: TestContext, content: string | Buffer, growing = false): Promise<Log> {
  const path = join(tempFolder(t), 'out');
  writeFileSync(path, content);
  return openLog(t, path, growing);
}

async function openLog(t: TestContext, path: string, growing = false, start = 0): Promise<Log> {
  const log = await Log.open({ path, start, growing });
  t.after(() => log[Symbol.asyncDispose]());
  return log;
}

const clean = { maxBytes: 8192, raw: false };
const raw = { maxBytes: 8192, raw: true };

describe('cleaning', () => {
  test('escape codes, rewrites and backspaces become what a person sees', () => {
    assert.equal(cleanText('\u001b[31mred\u001b[0m \u001b]0;title\u0007x'), 'red x');
    assert.equal(cleanText('\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\'), 'link');
    assert.equal(cleanText('10%\r20%\r\u001b[K100%'), '100%');
    assert.equal(cleanText('done\r'), 'done');
    assert.equal(cleanText('abc\b\bX'), 'aX');
    assert.equal(cleanText('a\u0000b\u0007\tc'), 'ab\tc');
  });

  test('a long line keeps both ends and whole characters', () => {
    const short = shorten('ü'.repeat(5000), 200);
    assert.ok(Buffer.byteLength(short) <= 200);
    assert.match(short, /^ü+…\[\+9,800 bytes\]…ü+$/);
  });

  test('an incomplete character at the end is detected for every length', () => {
    for (const character of ['a', 'ü', '€', '😀']) {
      const bytes = Buffer.from(`x${character}`);
      assert.equal(partialEnd(bytes), 0);
      for (let cut = 2; cut < bytes.length; cut++) {
        assert.equal(partialEnd(bytes.subarray(0, cut)), cut - 1);
      }
    }
  });
});

describe('reading', () => {
  test('the tail stays within its budget and reports where it begins', async (t) => {
    const text = Array.from({ length: 5000 }, (_, i) => `${'x'.repeat(i % 40)} line ${i}`).join(
      '\n',
    );
    const log = await logOf(t, text);
    const tail = await readTail(log, { maxBytes: 1000, raw: false });
    assert.ok(Buffer.byteLength(tail.text) <= 1000);
    assert.match(tail.text, /line 4999$/);
    assert.equal(tail.next, log.size);
    const before = await readTail(log, { maxBytes: 1000, raw: false }, tail.from);
    assert.equal(before.next, tail.from);
  });

  test('reading from cursor to cursor shows every byte once, with any budget', async (t) => {
    const text = Array.from({ length: 400 }, (_, i) => `ü${i} ${'€'.repeat(i % 50)}\n`).join('');
    const log = await logOf(t, text);
    for (const maxBytes of [200, 333, 8192]) {
      let at = 0;
      let all = '';
      while (at < log.size) {
        const part = await readForward(log, at, { maxBytes, raw: true });
        assert.equal(part.from, at);
        assert.ok(part.next > at);
        all += part.text;
        at = part.next;
      }
      assert.equal(all, text);
    }
  });

  test('the tail before a cursor; a cursor after the end means the end', async (t) => {
    const log = await logOf(t, 'one\ntwo\nthree\n');
    for (const options of [clean, raw]) {
      assert.equal((await readTail(log, options, 8)).text, 'one\ntwo\n');
      const { text, from, next } = await readTail(log, options, 5000);
      assert.deepEqual({ text, from, next }, { text: 'one\ntwo\nthree\n', from: 0, next: 14 });
    }
  });

  test('head_tail shows everything or reports the gap', async (t) => {
    const words = 'alpha beta gamma delta epsilon zeta eta theta'.split(' ');
    const line = (i: number) => `${words[i % 8]} ${words[(i * 3) % 7]} ${i}`;
    const text = Array.from({ length: 3000 }, (_, i) => line(i)).join('\n');
    const log = await logOf(t, text);
    const { head, tail } = await readBothEnds(log, { maxBytes: 2000, raw: false });
    assert.equal(head.from, 0);
    assert.equal(tail?.next, log.size);
    assert.ok(tail.from > head.next);
    for (const maxBytes of [200, 1000])
      for (const how of [clean, raw]) {
        const ends = await readBothEnds(log, { ...how, maxBytes });
        assert.ok(Buffer.byteLength(ends.head.text + ends.tail!.text) <= maxBytes - 84);
      }
    const small = await readBothEnds(await logOf(t, 'a\nb\n'), clean);
    assert.equal(small.head.text, 'a\nb\n');
    assert.equal(small.tail, undefined);
  });

  test('an escape that is not complete yet waits for its rest', async (t) => {
    const whole = 'a \u001b[1;31mred\u001b[0m \u001b]8;;http://x/\u0007link\u001b]8;;\u001b\\ end';
    for (let cut = 1; cut < whole.length; cut++) {
      const path = join(tempFolder(t), 'out');
      writeFileSync(path, whole.slice(0, cut));
      const first = await readForward(await openLog(t, path, true), 0, clean);
      writeFileSync(path, whole);
      const rest = await readForward(await openLog(t, path, true), first.next, clean);
      assert.equal(first.text + rest.text, 'a red link end', `cut at ${cut}`);
    }
  });

  test('a prompt without newline is shown, an unfinished character waits for its rest', async (t) => {
    const log = await logOf(t, 'Continue? ', true);
    assert.equal((await readTail(log, clean)).text, 'Continue? ');
    const cut = await logOf(t, Buffer.from('ok €').subarray(0, 5), true);
    const part = await readForward(cut, 0, raw);
    assert.deepEqual([part.text, part.next], ['ok ', 3]);
    const over = await logOf(t, Buffer.from('ok €').subarray(0, 5), false);
    assert.equal((await readForward(over, 0, raw)).next, 5);
  });

  test('invalid UTF-8 and NUL never break reading', async (t) => {
    const bytes = Buffer.concat([
      Buffer.from('a\n'),
      Buffer.from([0xff, 0xfe, 0, 0xc3, 10]),
      Buffer.from('z\n'),
    ]);
    const log = await logOf(t, bytes);
    const text = (await readTail(log, clean)).text;
    assert.match(text, /^a\n/);
    assert.match(text, /z\n$/);
    const noise = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 7919) % 256));
    const noisy = await logOf(t, noise);
    const part = await readForward(noisy, 0, { maxBytes: 1000, raw: true });
    assert.ok(Buffer.byteLength(part.text) <= 1000 && part.next > 0);
    assert.ok(
      Buffer.byteLength((await readTail(noisy, { maxBytes: 1000, raw: false })).text) <= 1100,
    );
  });

  test('lines by number', async (t) => {
    const log = await logOf(t, 'one\ntwo\nthree\n');
    assert.equal(await offsetOfLine(log, 1), 0);
    assert.equal(await offsetOfLine(log, 3), 8);
    assert.equal(await offsetOfLine(log, 9), 14);
    assert.deepEqual(await Promise.all([0, 8, 14].map((at) => lineAt(log, at, clock))), [1, 3, 4]);
  });

  test('a progress bar of many kilobytes becomes a few lines', async (t) => {
    let text = 'start\n';
    for (let i = 0; i <= 1000; i++) text += `\r\u001b[2K\u001b[32mloading ${i / 10}%\u001b[0m`;
    for (let i = 0; i < 500; i++) text += `\nfetched package ${i} of 500`;
    const { text: shown } = await readTail(await logOf(t, `${text}\ndone\n`), clean);
    assert.ok(shown.length < 200, shown);
    assert.match(
      shown,
      /start\n.*loading 100%\n.*\n\[… 498 lines that count up like this …\]\n.*\ndone\n$/s,
    );
  });

  test('five gigabytes are read from both ends with bounded memory', async (t) => {
    const path = join(tempFolder(t), 'out');
    const fd = openSync(path, 'w');
    writeSync(fd, 'first line\n');
    truncateSync(path, 5_000_000_000);
    writeSync(fd, '\nlast line\n', 5_000_000_000);
    closeSync(fd);
    const before = process.memoryUsage().rss;
    const log = await openLog(t, path);
    assert.equal((await readTail(log, clean)).text.endsWith('last line\n'), true);
    assert.match((await readForward(log, 0, clean)).text, /^first line\n/);
    const { tail } = await readBothEnds(log, clean);
    assert.equal(tail?.next, log.size);
    assert.ok(process.memoryUsage().rss - before < 200e6);
  });

  test('a five-megabyte line shows both ends and how much is missing', async (t) => {
    for (const after of ['', '\n', '\nlast line\n']) {
      const line = `begin ${'x'.repeat(5_000_000)} end`;
      const log = await logOf(t, `first line\n${line}${after}`);
      for (const maxBytes of [2000, 8192]) {
        const { text, from } = await readTail(log, { maxBytes, raw: false });
        assert.equal(from, 11);
        const [, head, missing, tail] = /^(begin x+)…\[\+([\d,]+) bytes\]…(x+ end)/.exec(text)!;
        const hidden = Number(missing!.replaceAll(',', ''));
        assert.ok(Math.abs(head!.length + tail!.length + hidden - line.length) < 40);
        assert.equal(text.endsWith(`end${after}`), true);
      }
    }
    const bar = await logOf(t, `start\n${'\rloading 10%'.repeat(200_000)}\rdone\n`);
    assert.equal((await readTail(bar, clean)).text, 'done\n');
  });

  test('output dropped by a ring is not shown', async (t) => {
    const path = join(tempFolder(t), 'out');
    writeFileSync(path, 'gone\nkept\n');
    const log = await openLog(t, path, true, 5);
    assert.deepEqual(await readForward(log, 0, raw), { text: 'kept\n', from: 5, next: 10 });
  });
});

describe('searching', () => {
  const options: GrepOptions = {
    pattern: 'needle',
    regex: false,
    ignoreCase: false,
    context: 0,
    countOnly: false,
    from: 0,
    maxBytes: 4000,
    raw: false,
  };

  test('plain text with context, across windows, with the offset of each line', async (t) => {
    const filler = `${'hay '.repeat(20)}\n`.repeat(30_000);
    const log = await logOf(
      t,
      `${filler}before\na ne\u001b[31medle\u001b[0m\nafter\n${filler}needle`,
    );
    const found = await grep(log, { ...options, context: 1 }, clock);
    assert.equal(found.matches, 2);
    assert.equal(found.complete, true);
    const at = filler.length + 'before\n'.length;
    assert.match(found.text, new RegExp(`-before\n${at}:a needle\n\\d+-after\n--\n`));
  });

  test('RE2 expressions, case and counting; a hostile expression is fast, an invalid one is explained', async (t) => {
    const log = await logOf(t, 'Error: 1\nerror: 22\nok\n');
    const count = async (more: Partial<GrepOptions>) =>
      (await grep(log, { ...options, ...more }, clock)).matches;
    assert.equal(await count({ pattern: 'error', ignoreCase: true }), 2);
    assert.equal(await count({ pattern: String.raw`^\w+: \d{2}$`, regex: true }), 1);
    assert.equal(await count({ pattern: '.', countOnly: true }), 0);
    const evil = await logOf(t, `${'a'.repeat(20_000)}!\n`);
    await grep(evil, { ...options, pattern: '(a+)+$', regex: true }, clock);
    await assert.rejects(grep(log, { ...options, pattern: '(?=x)', regex: true }, clock), {
      code: 'invalidInput',
    });
  });

  test('more matches than fit continue from the cursor', async (t) => {
    const log = await logOf(t, 'needle in a line of some length\n'.repeat(1000));
    let from = 0;
    let matches = 0;
    for (let calls = 0; calls < 100; calls++) {
      const found = await grep(log, { ...options, from, maxBytes: 2000 }, clock);
      assert.ok(Buffer.byteLength(found.text) <= 2000);
      matches += found.matches;
      from = found.next;
      if (found.complete) break;
    }
    assert.equal(matches, 1000);
  });

  test('the match in a long line is shown with any budget', async (t) => {
    const log = await logOf(t, `${'ü'.repeat(5000)}a needle here${'z'.repeat(5000)}\n`);
    for (const more of [{}, { regex: true }, { ignoreCase: true, pattern: 'NEEDLE' }]) {
      for (const maxBytes of [200, 4000]) {
        const found = await grep(log, { ...options, ...more, maxBytes }, clock);
        assert.match(found.text, /^0:…\[\+[\d,]+ bytes\]…ü+a needle herez+…\[\+[\d,]+ bytes\]…$/);
        assert.ok(Buffer.byteLength(found.text) <= maxBytes);
      }
    }
  });

  test('a match is shown even if its context does not fit, and separators count', async (t) => {
    const long = (n: number) => `${'l'.repeat(900)}\n`.repeat(n);
    const log = await logOf(t, `${long(20)}a needle${long(21)}`);
    for (const maxBytes of [200, 4000]) {
      const found = await grep(log, { ...options, context: 20, maxBytes }, clock);
      assert.match(found.text, /^18020:a needlel+/m);
      assert.ok(Buffer.byteLength(found.text) <= maxBytes);
    }
    const many = await logOf(t, 'needle\nb\nc\nd\n'.repeat(1000));
    const { text } = await grep(many, { ...options, context: 1, maxBytes: 1000 }, clock);
    assert.ok(Buffer.byteLength(text) <= 1000, String(Buffer.byteLength(text)));
  });

  test('a line that spans several windows is one line, and a match may span two of them', async (t) => {
    const window = 2 ** 20;
    const log = await logOf(
      t,
      `first\n${'x'.repeat(window - 9)}needle${'y'.repeat(window)}needle${'z'.repeat(window)}\nneedle\n`,
    );
    for (const more of [{}, { regex: true }, { ignoreCase: true }]) {
      const found = await grep(log, { ...options, ...more }, clock);
      assert.equal(found.matches, 2);
      assert.match(found.text, /x+needley+/);
    }
    const { matches } = await grep(log, { ...options, pattern: 'z', countOnly: true }, clock);
    assert.equal(matches, 1);
  });
});

test('the screen shows what a terminal displays', async (t) => {
  const log = await logOf(
    t,
    'old\r\n\u001b[2J\u001b[H\u001b[1mTitle\u001b[0m\r\n\r\n> \u001b[3;10Hcursor',
  );
  const screen = await renderScreen(log, { cols: 40, rows: 10 });
  assert.equal(screen.text, 'Title\n\n>        cursor');
  assert.deepEqual(screen.cursor, { row: 3, col: 16 });
  const some = await renderScreen(log, { cols: 40, rows: 10 }, 15);
  assert.deepEqual(
    { text: some.text, hidden: some.hiddenRows },
    { text: '>        cursor', hidden: 2 },
  );
  const wide = await logOf(t, 'w'.repeat(900));
  const cut = await renderScreen(wide, { cols: 1000, rows: 10 }, 200);
  assert.match(cut.text, /^w+…\[\+700 bytes\]…w+$/);
  assert.ok(Buffer.byteLength(cut.text) <= 200);
});
