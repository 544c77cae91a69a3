// Tables that fit a terminal, sizes and times for people, hints in the words of the command line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { duration, size, tableText, terminalWords } from '../../../src/faces/cli/print.ts';

const screen = (columns?: number) => ({ out: () => {}, err: () => {}, columns });
const rows = [
  { id: 'job_7f3k2m9q4t8x1b5n', status: 'completed', name: '', summary: 'npm test '.repeat(20) },
  { id: 'job_0000000000000000', status: 'input_required', name: '', summary: 'x' },
];
const columns = ['id', 'status', 'name', 'summary'];

test('a table fits the terminal, keeps ids whole and leaves empty columns out', () => {
  const lines = stripVTControlCharacters(tableText(screen(60), rows, columns)).split('\n');
  assert.match(lines[0]!, /^ID +STATUS +SUMMARY/);
  assert.match(lines[1]!, /^job_7f3k2m9q4t8x1b5n {2}completed {7}npm test .*…$/);
  for (const line of lines) assert.ok(line.length <= 60, line);
  assert.match(
    stripVTControlCharacters(tableText(screen(20), rows, columns)),
    /job_7f3k2m9q4t8x1b5n/,
  );
  assert.match(tableText(screen(), rows, columns), new RegExp(rows[0]!.summary.trim()));
  assert.equal(tableText(screen(), [], columns), 'nothing here\n');
});

test('sizes and durations as people say them', () => {
  assert.deepEqual([0, 999, 1000, 5_250_000, 3e12].map(size), [
    '0 B',
    '999 B',
    '1.0 kB',
    '5.3 MB',
    '3000.0 GB',
  ]);
  assert.deepEqual([5, 1500, 61_000, 3_660_000].map(duration), ['5ms', '1.5s', '1m01s', '1h01m']);
});

test('a hint for agents names commands on a terminal', () => {
  assert.equal(
    terminalWords('read_output with mode errors shows the lines that matter; list_jobs lists.'),
    '`errand logs --errors` shows the lines that matter; `errand list` lists.',
  );
  assert.equal(terminalWords('Set web_thing in config.json.'), 'Set web_thing in config.json.');
});
