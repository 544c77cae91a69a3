import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withEgressHint } from '../../../src/interfaces/cli/egress-hint.ts';
import { tempFolder } from '../../helpers/folder.ts';

const refusal = {
  code: 'egressRefused',
  message: '127.0.0.1 is a loopback address.',
  hint: '',
  retryable: false,
  data: { allow: '127.0.0.1:3000' },
};

/** Edits config.json exactly as the hint says. */
function applied(home: string, text: string | undefined): unknown {
  const file = join(home, 'config.json');
  if (text !== undefined) writeFileSync(file, text);
  const place = () => ({ home, socketPath: '' });
  const { hint } = withEgressHint({ env: {}, place }, refusal);
  assert.ok(hint.includes(file), hint);
  const line = /^ {2}(.*)$/m.exec(hint)![1]!;
  if (hint.includes('write this line to')) return JSON.parse(line);
  if (hint.includes('after the first brace')) return JSON.parse(text!.replace('{', `{\n${line}\n`));
  const number = Number(/in line (\d+) of/.exec(hint)![1]);
  const lines = text!.split('\n');
  assert.match(lines[number - 1]!, /"egress"/);
  return JSON.parse(text!.replace(/"egress"\s*:\s*\{[^}]*\}/, line));
}

const allow = ['127.0.0.1:3000'];

test('following the hint produces a valid config.json that keeps all other settings', (t) => {
  assert.deepEqual(applied(tempFolder(t), undefined), { egress: { allow } });
  assert.deepEqual(applied(tempFolder(t), ''), { egress: { allow } });
  assert.deepEqual(applied(tempFolder(t), '{}'), { egress: { allow } });
  assert.deepEqual(applied(tempFolder(t), '{ "server": { "port": 1 } }'), {
    server: { port: 1 },
    egress: { allow },
  });
  const both =
    '{\n  "server": { "port": 1 },\n  "egress": {\n    "allow": ["a.local"],\n    "deny": ["b.local"]\n  }\n}';
  assert.deepEqual(applied(tempFolder(t), both), {
    server: { port: 1 },
    egress: { allow: ['a.local', ...allow], deny: ['b.local'] },
  });
});
