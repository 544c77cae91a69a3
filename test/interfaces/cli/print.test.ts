// Tables that fit the terminal, sizes and durations, and hints that name commands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import {
  commandNames,
  fieldsText,
  printOutput,
  tableText,
  withCommandNames,
} from '../../../src/interfaces/cli/print.ts';
import { durationText, sizeText } from '../../../src/runtime/units.ts';
import { help, usageError } from '../../../src/interfaces/cli/operation-command.ts';
import { AppError } from '../../../src/errors.ts';

const screen = (columns?: number) => ({
  out: () => {},
  err: () => {},
  columns,
  colour: columns !== undefined,
  now: () => Date.parse('2026-01-31T08:00:00Z'),
});
const rows = [
  { id: 'job_7f3k2m9q4t8x1b5n', status: 'completed', name: '', summary: 'npm test '.repeat(20) },
  { id: 'job_0000000000000000', status: 'input_required', name: '', summary: 'x' },
];
const columns = ['id', 'status', 'name', 'summary'];

test('a table fits the terminal, shortens ids and omits empty columns', () => {
  const lines = stripVTControlCharacters(tableText(screen(60), rows, columns)).split('\n');
  assert.match(lines[0]!, /^ID +STATUS +SUMMARY/);
  assert.match(lines[1]!, /^7f3k2m9q {2}completed {7}npm test .*…$/);
  for (const line of lines) assert.ok(line.length <= 60, line);
  assert.match(stripVTControlCharacters(tableText(screen(20), rows, columns)), /7f3k2m9q/);
  assert.match(tableText(screen(), rows, columns), /job_7f3k2m9q4t8x1b5n/, 'full ids for scripts');
  assert.match(tableText(screen(), rows, columns), new RegExp(rows[0]!.summary.trim()));
  assert.equal(tableText(screen(), [], columns), 'no entries\n');
  assert.match(
    tableText(screen(), [{ maxConcurrency: 1 }], ['maxConcurrency']),
    /^MAX CONCURRENCY\n/,
  );
});

test('sizes and durations have short units', () => {
  assert.deepEqual([0, 999, 1000, 5_250_000, 3e12].map(sizeText), [
    '0 B',
    '999 B',
    '1.0 kB',
    '5.3 MB',
    '3000.0 GB',
  ]);
  assert.deepEqual([5, 1500, 61_000, 3_660_000].map(durationText), [
    '5ms',
    '1.5s',
    '1m01s',
    '1h01m',
  ]);
});

test('operation names in hints become commands', () => {
  assert.equal(
    withCommandNames('read_output with mode errors shows the lines that matter; list_jobs lists.'),
    '`errand logs --errors` shows the lines that matter; `errand list` lists.',
  );
  assert.equal(withCommandNames('Set web_thing in config.json.'), 'Set web_thing in config.json.');
});

test('nested fields are indented, and JSON of the caller is unchanged', () => {
  const spec = { recipe: { module: 'a.mjs' }, ttlMs: 90_000, tags: [] };
  const output = { id: 'x', spec, rows: [{ n: 1 }, { n: 2 }], result: { a: { b: 1 } } };
  assert.deepEqual(fieldsText(screen(), output).split('\n'), [
    'id      x',
    'spec',
    '  recipe  module a.mjs',
    '  ttlMs   1m30s',
    '  tags    –',
    'rows',
    '  N',
    '  1',
    '  2',
    'result  {"a":{"b":1}}',
    '',
  ]);
});

const entry = {
  name: 'set_queue',
  title: 'Set queue',
  description: 'Changes a queue, within graceMs. `list_queues` shows it.',
  effect: 'write' as const,
  cli: { words: ['queue', 'set'], args: ['name'] },
  streams: false,
  input: {
    type: 'object',
    required: ['name'],
    properties: {
      name: { type: 'string' },
      kind: { type: 'string', enum: ['command', 'web'], default: 'command' },
      maxAgeMs: { type: 'integer', description: 'Longest wait' },
      graceMs: { type: 'integer', default: 2000 },
    },
  },
};
const entries = [
  entry,
  { ...entry, name: 'list_queues', cli: { words: ['queue', 'list'] }, input: {} },
];

test('command help describes flags and names commands instead of operations', () => {
  const text = help(entry, entries);
  assert.match(text, /^Usage: errand queue set <name> \[flags\]/);
  assert.match(text, /`errand queue list` shows it/);
  assert.match(text, /--kind TEXT +command, web \(default command\)/);
  assert.match(text, /--max-age 30s +Longest wait/);
  assert.match(text, /within --grace\./);
  assert.match(text, /--grace 30s +\(default 2\.0s\)/);
  assert.equal(withCommandNames('set_queue', commandNames(entries)), '`errand queue set`');
});

test('input errors name arguments and flags and include the usage line', () => {
  const wrong = new AppError('invalidInput', 'Invalid input for set_queue: …', {
    data: {
      issues: [
        { path: 'name', message: 'Invalid input: expected string, received undefined' },
        { path: 'kind.0', message: 'Invalid option' },
      ],
    },
  });
  const { message, hint } = usageError(wrong, entry, entries) as AppError;
  assert.equal(message, '<name> is required; --kind: Invalid option');
  assert.match(hint!, /^Usage: errand queue set <name>/);
});

test('untrusted text cannot control the terminal', () => {
  const evil = 'page\u001b]0;owned\u0007\u001b[2J\u009b31m\u202etxt';
  const row = { id: 'job_0000000000000000', status: 'completed', name: evil, summary: evil };
  let shown = '';
  const printed = { ...screen(), out: (text: string) => void (shown += text) };
  printOutput(printed, entry, {}, { text: `line one\r\n${evil}` });
  const texts = [
    tableText(screen(), [row], columns),
    fieldsText(screen(), { name: evil, row }),
    shown,
  ];
  for (const text of texts) assert.doesNotMatch(text, /[^\n\P{Cc}]|\u202e/u, JSON.stringify(text));
  assert.match(shown, /^line one\npage/);
});
