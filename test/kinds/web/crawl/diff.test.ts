// The diff for change tracking. Random edits check that the line counts add up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffLines } from '../../../../src/kinds/web/crawl/write/diff.ts';

test('a diff lists the added and removed lines', () => {
  const before = 'one\ntwo\nthree\nfour\nfive\nsix\nseven';
  const after = 'one\ntwo\n3\nfour\nfive\nsix\nseven\neight';
  const { text, added, removed } = diffLines(before, after);
  assert.deepEqual({ added, removed }, { added: 2, removed: 1 });
  assert.equal(text, '@@ -1,7 +1,8 @@\n one\n two\n-three\n+3\n four\n five\n six\n seven\n+eight');
  assert.equal(diffLines('a', 'a').text, '');
});

test('texts without common lines return only counts, in bounded time', () => {
  const lines = (word: string) => Array.from({ length: 5000 }, (_, i) => `${word} ${i}`).join('\n');
  const diff = diffLines(lines('old'), lines('new'));
  assert.equal(diff.text, undefined);
  assert.equal(diff.added, 5000);
});

test('after random edits, kept and added lines add up to the new text', () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48_271) % 2_147_483_647) % n;
  for (let round = 0; round < 200; round++) {
    const before = Array.from({ length: random(30) }, () => `l${random(8)}`);
    const after = before.flatMap((line) =>
      random(5) === 0 ? [] : random(6) === 0 ? [line, `n${random(9)}`] : [line],
    );
    const { added, removed } = diffLines(before.join('\n'), after.join('\n'));
    if (before.length > 0 && after.length > 0)
      assert.equal(before.length - removed + added, after.length);
  }
});
