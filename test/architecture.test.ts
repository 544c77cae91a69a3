// The house rules, as a test: who may import whom, and which calls live in one place only. Read it as documentation.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '..');
const files = globSync('src/**/*.ts', { cwd: root }).map((path) => ({
  path: path.replace(/^src\//, ''),
  text: readFileSync(join(root, path), 'utf8'),
}));

/** What each part may import, besides itself and packages. Inner rings never import outer ones. */
const rules: [part: RegExp, allowed: RegExp][] = [
  [/^runtime\//, /^(runtime\/|errors\.ts)/],
  [/^errors\.ts$/, /^$/],
  [/^operation\.ts$/, /^(errors\.ts|runtime\/)/],
  [/^dialect\.ts$/, /^(operation\.ts|errors\.ts)/],
  [/^config(-place)?\.ts$/, /^(errors\.ts|runtime\/|config-place\.ts)/],
  [/^store\//, /^(store\/|errors\.ts|runtime\/)/],
  [/^jobs\//, /^(jobs\/|store\/store\.ts|access\/|operation\.ts|errors\.ts|runtime\/)/],
  [/^access\//, /^(access\/|jobs\/job\.ts|store\/store\.ts|operation\.ts|errors\.ts|runtime\/)/],
  [
    /^kinds\//,
    /^(kinds\/SELF\/|jobs\/|access\/|store\/store\.ts|operation\.ts|errors\.ts|runtime\/)/,
  ],
  [/^faces\//, /^(faces\/SELF\/|operation\.ts|dialect\.ts|errors\.ts|runtime\/)/],
  [/^dialects\//, /^(dialects\/SELF\/|operation\.ts|dialect\.ts|errors\.ts|runtime\/)/],
];

function importsOf(path: string, text: string): string[] {
  const found = text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...found].map(([, target]) => relative('.', join(dirname(path), target!)));
}

const topOf = (path: string): string => path.split('/')[1] ?? '';

describe('architecture', () => {
  test('inner rings never import outer ones, kinds never each other, faces and dialects only operations', () => {
    const wrong: string[] = [];
    for (const { path, text } of files) {
      const rule = rules.find(([part]) => part.test(path));
      if (!rule) continue;
      const allowed = new RegExp(rule[1].source.replace('SELF', topOf(path)));
      for (const target of importsOf(path, text)) {
        if (!allowed.test(target)) wrong.push(`${path} imports ${target}`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  const only = (what: string, call: RegExp, where: RegExp) => {
    test(what, () => {
      const wrong = files.filter(({ path, text }) => call.test(code(text)) && !where.test(path));
      assert.deepEqual(
        wrong.map(({ path }) => path),
        [],
      );
    });
  };

  only(
    'the environment is read in config-place.ts only',
    /process\.env\b/,
    /^config-place\.ts$|worker-main|runner-main|guard-main|shim/,
  );
  only(
    'timers and the time of day come through runtime/clock',
    /\b(setTimeout|setInterval|Date\.now)\s*\(/,
    /^runtime\/|-(main|shim|thread)\.ts$/,
  );
  only(
    'the network is reached through runtime/egress',
    /from 'undici'|\bfetch\s*\(\s*['"`]http|from 'node:dns/,
    /^runtime\/egress\//,
  );
  only(
    'SQL lives in stores, ledgers and migrations',
    /(sql: |read(<[^>]*>)?\(\s*)[`'](SELECT|INSERT|UPDATE|DELETE) /,
    /^store\/|^jobs\/|^access\/|(store|ledger|books|frontier|migrations|table|chain|index)[\w-]*\.ts$|\/store\//,
  );

  test('no file is long, and each says first what it is', () => {
    const wrong = files.flatMap(({ path, text }) => {
      const lines = text.trimEnd().split('\n').length;
      return [
        ...(lines > 400 ? [`${path} has ${lines} lines`] : []),
        ...(text.startsWith('//') ? [] : [`${path} does not open with a comment`]),
      ];
    });
    assert.deepEqual(wrong, []);
  });

  test('nothing unfinished is left in the source', () => {
    const marks = /\b(TODO|FIXME|XXX)\b/;
    assert.deepEqual(
      files.filter(({ text }) => marks.test(text)).map(({ path }) => path),
      [],
    );
  });
});

/** Comments may name what code may not. */
function code(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
