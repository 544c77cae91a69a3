// Errors are found in real output of many tools, even with prefixes, and mostly without tool-specific rules.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { unprefixed } from '../../../../../src/kinds/command/output/errors/prefix.ts';
import { markErrors } from '../../../../../src/kinds/command/output/errors/select.ts';
import {
  noScore,
  plus,
  precisionOf,
  recallOf,
  samples,
  scoreOf,
  variants,
  type Score,
} from './corpus.ts';

const minRecall = 0.95;
const minPrecision = 0.7;
/** Runs without the rules named for the tool. */
const recallMinWithout = 0.8;

const all = samples();
const real = all.filter(({ handWritten }) => !handWritten);
const tools = [...new Set(real.map(({ tool }) => tool))];

describe('the corpus', () => {
  for (const [name, variant] of Object.entries(variants))
    test(`${name}: recall and precision over all samples and per tool`, async (t) => {
      let total = noScore();
      for (const tool of tools) {
        let score = noScore();
        for (const sample of real.filter((one) => one.tool === tool))
          score = plus(score, await scoreOf(sample, variant));
        assert.ok(recallOf(score) >= 0.85, `${tool}: ${textOf(score)}`);
        assert.ok(precisionOf(score) >= 0.6, `${tool}: ${textOf(score)}`);
        total = plus(total, score);
      }
      t.diagnostic(textOf(total));
      assert.ok(recallOf(total) >= minRecall, textOf(total));
      assert.ok(precisionOf(total) >= minPrecision, textOf(total));
    });

  test('errors are still found without the rules named for the tool', async () => {
    for (const tool of tools) {
      let score = noScore();
      for (const sample of real.filter((one) => one.tool === tool))
        score = plus(score, await scoreOf(sample, variants.plain!, new Set([tool])));
      assert.ok(recallOf(score) >= recallMinWithout, `${tool}: ${textOf(score)}`);
    }
  });

  test('handwritten samples', async () => {
    let score = noScore();
    for (const sample of all.filter(({ handWritten }) => handWritten))
      score = plus(score, await scoreOf(sample, variants.plain!));
    assert.ok(recallOf(score) >= minRecall && precisionOf(score) >= minPrecision, textOf(score));
  });
});

const textOf = (score: Score): string =>
  `recall ${recallOf(score).toFixed(3)} (${score.found} of ${score.wanted}), ` +
  `precision ${precisionOf(score).toFixed(3)} (${score.right} of ${score.shown})`;

describe('prefixes', () => {
  test('timestamps and process names are removed, levels and locations stay', () => {
    const texts = {
      '2026-11-18T03:52:37.539Z error: x': 'error: x',
      '2026-11-18 03:52:37,539 ERROR [worker] x': 'ERROR [worker] x',
      '[12:00:01] x': 'x',
      'web-1  |   3 | code': '  3 | code',
      '[0] src/a.ts(1,2): error': 'src/a.ts(1,2): error',
      '#12 3.456 make: *** [all] Error 1': 'make: *** [all] Error 1',
      '[ERROR] x': '[ERROR] x',
      '[100%] Built target': '[100%] Built target',
      'src/a.ts:3:4: x': 'src/a.ts:3:4: x',
      'make: *** No rule': 'make: *** No rule',
      '12 | code': '12 | code',
    };
    for (const [line, text] of Object.entries(texts)) assert.equal(unprefixed(line).text, text);
  });
});

describe('single lines', () => {
  const errors = [
    './main.go:4:14: undefined: foo',
    "make: *** No rule to make target 'x'.  Stop.",
    'tar: f4.tar: Cannot write: No space left on device',
    'ValueError: bad thing',
    'java.lang.NullPointerException',
    'npm ERR! code ELIFECYCLE',
    'cat: foo: No such file or directory',
    'not ok 4 - adds',
    '3 failed, 0 errors',
    'Tests run: 5, Failures: 2, Errors: 0',
    "thread 'main' panicked at src/main.rs:2:5",
    'curl: (28) Connection timed out',
    'request failed 0.5 s later',
    'level=error msg="cannot listen"',
    '{"level":"error","msg":"x"}',
    '##[error]Process completed with exit code 1.',
    'Process exited with code 137',
  ];
  const fine = [
    'Found 0 errors.',
    '# fail 0',
    'Failures: 0, Errors: 0',
    'done without errors',
    'ok',
    '✓ handles errors (3 ms)',
    'test errors::are_shown ... ok',
    'PASS tests/failures.test.ts',
    '--- PASS: TestError (0.00s)',
    'INFO  error queue is empty',
    'Compiling thiserror v1.0.40',
    'Get:12 http://mirror.example.org/debian bookworm/main amd64 libgpg-error0 amd64 1.46-1 [76.1 kB]',
    'gcc -Wall -Werror -c src/error.c -o build/error.o',
    'GET /errors/404.html 200 3 ms',
  ];
  test('error lines of many programs', () => {
    for (const line of errors) assert.equal(markErrors([line]).get(0), 'error', line);
  });
  test('lines that contain error words but report no error', () => {
    for (const line of fine) assert.equal(markErrors([line]).size, 0, line);
  });
});

test('pathological lines are classified in bounded time', () => {
  const parts = [
    'a.',
    '/a',
    ' ',
    '(',
    '-',
    'a/',
    '.a:1',
    'Error ',
    '│ ',
    '"',
    "'",
    'x-',
    '1:1 ',
    '> ',
    '\t',
    '[a] ',
    '=',
    '^~',
  ];
  const lines = parts.flatMap((part) => [
    part.repeat(1000 / part.length),
    `${part.repeat(1000 / part.length)}!`,
  ]);
  const texts = Array.from({ length: 20 }, () => lines).flat();
  const started = performance.now();
  markErrors(texts);
  const perLineMs = (performance.now() - started) / texts.length;
  assert.ok(perLineMs < 25, `${perLineMs} ms per line`);
});
