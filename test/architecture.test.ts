// The house rules, as a test: who may import whom, and which calls live in one place only. Read it as documentation.
// Two rules are kept elsewhere: the linter finds cycles, and removal.test.ts takes the kinds out.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { kinds } from '../src/app.ts';
import { errorTable, registerErrors } from '../src/errors.ts';

const root = join(import.meta.dirname, '..');
const files = globSync('src/**/*.ts', { cwd: root }).map((path) => {
  const text = readFileSync(join(root, path), 'utf8');
  return { path: path.replace(/^src\//, ''), text, code: withoutComments(text) };
});

/** What each part may import, besides packages. Inner rings never import outer ones; a file without a rule is refused. */
const rules: [part: RegExp, allowed: RegExp][] = [
  [/^runtime\//, /^(runtime\/|errors\.ts)/],
  [/^(errors|version)\.ts$/, /^$/],
  [/^(command-shape|job-names)\.ts$/, /^$/],
  [/^issue-text\.ts$/, /^runtime\/by-name\.ts$/],
  [/^(authorization|stream-item)\.ts$/, /^errors\.ts$/],
  [/^input-error\.ts$/, /^(errors|issue-text)\.ts/],
  [
    /^operation\.ts$/,
    /^(authorization|command-shape|errors|input-error|job-names|stream-item)\.ts|^runtime\//,
  ],
  [/^dialect\.ts$/, /^(operation\.ts|errors\.ts)/],
  [/^config(-place)?\.ts$/, /^(errors\.ts|issue-text\.ts|runtime\/|config-place\.ts)/],
  [/^store\//, /^(store\/|errors\.ts|runtime\/)/],
  [
    /^jobs\//,
    /^(jobs\/|store\/store\.ts|access\/|operation\.ts|job-names\.ts|errors\.ts|runtime\/)/,
  ],
  [/^access\//, /^(access\/|jobs\/job\.ts|store\/store\.ts|operation\.ts|errors\.ts|runtime\/)/],
  [/^cluster\//, /^(cluster\/|jobs\/|store\/store\.ts|operation\.ts|errors\.ts|runtime\/)/],
  [
    /^kinds\//,
    /^(kinds\/SELF\/|jobs\/|access\/|store\/store\.ts|operation\.ts|errors\.ts|runtime\/)/,
  ],
  [/^faces\//, /^(faces\/SELF\/|operation\.ts|dialect\.ts|errors\.ts|runtime\/)/],
  [/^dialects\//, /^(dialects\/SELF\/|operation\.ts|dialect\.ts|errors\.ts|runtime\/)/],
  // The composition root alone names the kinds and dialects, by their index; how it is asked is the faces' business.
  [/^app\.ts$/, /^(?!faces\/|(kinds|dialects)\/[^/]+\/(?!index\.ts)|server\.ts|main\.ts)/],
  // What is made of the whole: a running server, the command line's other work, a look at the machine.
  [
    /^(server|server-operations|main|home|home-ledger|metrics|output-copy|restore|settings-report|store-check|store-tools|tracing)\.ts$/,
    anyRing(),
  ],
  [/^doctor\//, anyRing()],
];

/** Programs that run in a process of their own, beside a job: they are given no clock, no configuration, no egress. */
const ownPrograms =
  /^kinds\/(endpoint\/runner\/|command\/process\/(guard-main|launcher-main|terminal-shim)\.ts)/;

describe('architecture', () => {
  test('inner rings never import outer ones, kinds never each other, faces and dialects only operations', () => {
    const wrong: string[] = [];
    for (const file of files) {
      const rule = rules.find(([part]) => part.test(file.path));
      if (!rule) wrong.push(`${file.path} has no rule`);
      const self = file.path.split('/')[1] ?? '';
      const allowed = new RegExp(rule?.[1].source.replace('SELF', self) ?? '');
      for (const target of importsOf(file)) {
        if (!allowed.test(target)) wrong.push(`${file.path} imports ${target}`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  const only = (what: string, call: RegExp, where: RegExp) => {
    test(what, () => {
      const wrong = files.filter((file) => call.test(file.code) && !where.test(file.path));
      assert.deepEqual(
        wrong.map(({ path }) => path),
        [],
      );
    });
  };

  only(
    'the environment is read in config-place.ts only',
    /process\.env\b|'node:process'/,
    either(/^config-place\.ts$/, ownPrograms),
  );
  only(
    'timers and the time of day come through runtime/clock',
    /\b(setTimeout|setInterval|Date\.now|performance\.now|new Date)\s*\(\s*\)|\b(setTimeout|setInterval)\s*\(|'node:timers/,
    either(/^runtime\//, ownPrograms),
  );
  only(
    'the network is reached through runtime/egress',
    /from 'undici'|from 'node:(dns|tls|dgram|http2)|\bnew (WebSocket|EventSource)\(|globalThis\.fetch/,
    /^runtime\/egress\//,
  );
  only(
    'sockets are opened by listeners, by a client of its own server, and in egress',
    /import (?!type\b)[^;]*from 'node:(http|https|net)'|import\('node:(http|https|net)'\)/,
    either(
      /^runtime\/egress\/|^faces\/(http\/(listeners|stale-sockets)|cli\/client|mcp\/connection)\.ts$/,
      ownPrograms,
    ),
  );
  only(
    'SQL lives in stores and migrations, in the core also beside what it does',
    /[`'"]\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)|WITH \w+ AS)\b/,
    /^(store|jobs|access)\/|(^|[/-])(store|migrations)\.ts$/,
  );
  only(
    'optional packages are imported at first use, so that nobody needs those he does not use',
    /import (?!type\b)[^;(]*from '(pg|pg-boss|s3mini|playwright-core|unpdf|viem|@lydell\/node-pty)['/]/,
    ownPrograms,
  );

  test('nobody takes the fetch of the platform, which knows no guard', () => {
    const calls = /(?<![\w.])fetch\(/;
    const ofItsOwn = /\{[^{}()]*\bfetch\b[^{}()]*\}/;
    const wrong = files.filter(({ code }) => calls.test(code) && !ofItsOwn.test(code));
    assert.deepEqual(
      wrong.map(({ path }) => path),
      [],
    );
  });

  test('the tables of a kind are known in its own folder only', () => {
    const wrong = kinds.flatMap(({ migrations = [] }) =>
      migrations.flatMap(({ id, statements }) => {
        const folder = `kinds/${id.split('/')[0]}/`;
        const all = statements(anyDdl).join('\n');
        const tables = [...all.matchAll(/CREATE (?:VIRTUAL )?TABLE (\w+)/g)].map(
          ([, name]) => name,
        );
        return files.flatMap(({ path, code }) =>
          tables
            .filter((name) => !path.startsWith(folder) && inSql(name!).test(code))
            .map((name) => `${path} names ${name} of ${folder}`),
        );
      }),
    );
    assert.deepEqual(wrong, []);
  });

  test('every code of an error is in the table of its status and exit code', () => {
    for (const { errors = {} } of kinds) registerErrors(errors);
    const known = new Set(errorTable().map(([code]) => code));
    const wrong = files.flatMap(({ path, code }) =>
      [...code.matchAll(/new AppError\(\s*'(\w+)'/g)]
        .filter(([, name]) => !known.has(name!))
        .map(([, name]) => `${path}: ${name}`),
    );
    assert.deepEqual(wrong, []);
  });

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

  test('tables that are looked up by name have no prototype', () => {
    const table = /^(?:export )?const \w+: (?:Readonly<)?Record<string,[^=]*= \{/m;
    assert.deepEqual(
      files.filter(({ code }) => table.test(code)).map(({ path }) => path),
      [],
      'make them with byName of runtime/by-name.ts',
    );
  });

  test('nothing unfinished is left in the source', () => {
    const marks = /\b(TODO|FIXME|XXX)\b/;
    assert.deepEqual(
      files.filter(({ text }) => marks.test(text)).map(({ path }) => path),
      [],
    );
  });
});

function importsOf({ path, code }: { path: string; code: string }): string[] {
  const found = code.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...found].map(([, target]) => relative('.', join(dirname(path), target!)));
}

/** Every ring, but no single kind and no single dialect. */
function anyRing(): RegExp {
  return /^(?!kinds\/|dialects\/)/;
}

function either(...parts: RegExp[]): RegExp {
  return new RegExp(parts.map(({ source }) => source).join('|'));
}

const anyDdl = { engine: 'sqlite', int: '', blob: '', serial: '', strict: '' } as const;

const inSql = (table: string): RegExp =>
  new RegExp(`\\b(FROM|INTO|JOIN|UPDATE|TABLE|ON) ${table}\\b`);

/** Comments may name what code may not. */
function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
