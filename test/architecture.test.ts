// The architecture rules as a test: which calls are allowed in one place only. scripts/graph.ts checks which part may import
// which, and removal.test.ts removes the kinds.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { dialects, kinds } from '../src/app.ts';
import { errorTable, registerErrors } from '../src/errors.ts';

const root = join(import.meta.dirname, '..');
const allFiles = globSync('src/**/*.{ts,tsx}', { cwd: root }).map((path) => {
  const text = readFileSync(join(root, path), 'utf8');
  return { path: path.replace(/^src\//, ''), text, code: withoutComments(text) };
});
/** The dashboard's program for browsers has timers and fetch of its own. */
const browserCode = 'interfaces/dashboard/browser/';
const files = allFiles.filter(({ path }) => !path.startsWith(browserCode));
const browserFiles = allFiles.filter(({ path }) => path.startsWith(browserCode));

/** Programs that run in their own process next to a job. They get no clock, configuration or egress. */
const ownPrograms =
  /^kinds\/(endpoint\/(runner|relay)\/|command\/process\/(guard-main|launcher-main|terminal-shim)\.ts)/;

/** The worker protocol, jobs on remotes, the search engine SearchClaw, migrations of old names, and errors in output. */
const speakForeign = [
  'command/output/errors/rules',
  'endpoint/health',
  'endpoint/migrations',
  'endpoint/operations/endpoints',
  'endpoint/relay/relay-main',
  'endpoint/remote/outcome',
  'endpoint/runner/protocol',
  'endpoint/runner/worker-loop',
  'endpoint/spec',
  'endpoint/workers/folders',
  'endpoint/workers/machine',
  'endpoint/workers/recipe',
  'escrow/migrations',
  'web/search/keyed',
  'web/search/search',
  'web/search/settings',
].map((name) => `kinds/${name}.ts`);

describe('architecture', () => {
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
    'only config-place.ts reads the environment',
    /process\.env\b|'node:process'/,
    either(/^config-place\.ts$/, ownPrograms),
  );
  only(
    'only runtime/clock provides timers and the time',
    /\b(setTimeout|setInterval|Date\.now|performance\.now|new Date)\s*\(\s*\)|\b(setTimeout|setInterval)\s*\(|'node:timers/,
    either(/^runtime\//, ownPrograms),
  );
  only(
    'only runtime/egress makes network requests',
    /from 'undici'|from 'node:(dns|tls|dgram|http2)|\bnew (WebSocket|EventSource)\(|globalThis\.fetch/,
    /^runtime\/egress\//,
  );
  only(
    'only listeners, clients of the own server and egress open sockets',
    /import (?!type\b)[^;]*from 'node:(http|https|net)'|import\('node:(http|https|net)'\)|\bnodeHttps?\(\)/,
    either(
      /^runtime\/(egress\/|packages\.ts$)|^interfaces\/(http\/(listeners|stale-sockets)|cli\/client|mcp\/connection)\.ts$/,
      ownPrograms,
    ),
  );
  only('only runtime/thread-pool starts threads', /\bnew Worker\(/, /^runtime\/thread-pool\.ts$/);
  only(
    'only stores, migrations and the core contain SQL',
    /[`'"]\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)|WITH \w+ AS)\b/,
    /^(store|jobs|webhooks|access)\/|^kinds\/\w+\/(store\/|migrations\.ts$)|^cluster\/store\.ts$/,
  );
  only(
    'optional packages are imported on first use, so that unused ones need not be installed',
    /import (?!type\b)[^;(]*from '(pg|pg-boss|s3mini|playwright-core|unpdf|viem|@lydell\/node-pty)['/]/,
    ownPrograms,
  );

  test('interfaces and dialects know the type of what they call: no call by name asserts one', () => {
    const byName = /operations\.call(?:<[^(]*>)?\(\s*['"`]|operations\.call\([^)]*\) as /;
    const wrong = files.filter(
      ({ path, code }) => /^(interfaces|dialects)\//.test(path) && byName.test(code),
    );
    assert.deepEqual(
      wrong.map(({ path }) => path),
      [],
    );
  });

  test('no file uses the global fetch, which bypasses the egress policy', () => {
    const calls = /(?<![\w.])fetch\(/;
    const ownFetch = /\{[^{}()]*\bfetch\b[^{}()]*\}/;
    const wrong = files.filter(({ code }) => calls.test(code) && !ownFetch.test(code));
    assert.deepEqual(
      wrong.map(({ path }) => path),
      [],
    );
  });

  test('only the folder of a kind uses its tables', () => {
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

  test('kinds contain no names and words of other systems, except where they speak their protocols', () => {
    const names = new RegExp(dialects.map(({ name }) => name.replace('-', '[-_]')).join('|'), 'i');
    const words =
      /\b(IN_QUEUE|IN_PROGRESS|COMPLETED|FAILED|CANCELLED|TIMED_OUT|scrapeId|batch_scrape|job_(created|funded|submitted))\b/;
    const foreign = files.flatMap(({ path, code }) => {
      if (!path.startsWith('kinds/')) return [];
      const found = code.split('\n').filter((line) => names.test(line) || words.test(line));
      return found.map((line) => ({ path, line: `${path}: ${line.trim()}` }));
    });
    const wrong = foreign.filter(({ path }) => !speakForeign.includes(path));
    assert.deepEqual(
      wrong.map(({ line }) => line),
      [],
    );
    const speaking = new Set(foreign.map(({ path }) => path));
    assert.deepEqual(
      speakForeign.filter((path) => !speaking.has(path)),
      [],
      'remove files without foreign words from the list',
    );
  });

  test('every error code has an HTTP status and an exit code', () => {
    for (const { errors = {} } of kinds) registerErrors(errors);
    const known = new Set(errorTable().map(([code]) => code));
    const wrong = files.flatMap(({ path, code }) =>
      [...code.matchAll(/new AppError\(\s*'(\w+)'/g)]
        .filter(([, name]) => !known.has(name!))
        .map(([, name]) => `${path}: ${name}`),
    );
    assert.deepEqual(wrong, []);
  });

  test('browser code imports only bundled packages, and writes no HTML text', () => {
    const packages = /^(preact|preact\/hooks|@preact\/signals|uplot|@xterm\/(xterm|addon-fit))$/;
    const wrong = browserFiles.flatMap((file) => {
      const modules = [...file.code.matchAll(/from '([^.'][^']*)'/g)].map(([, name]) => name!);
      const html = /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write/;
      return [
        ...modules.filter((name) => !packages.test(name)).map((name) => `${file.path}: ${name}`),
        ...(html.test(file.code) ? [`${file.path} writes HTML`] : []),
      ];
    });
    assert.deepEqual(wrong, []);
  });

  test('each file starts with a header comment', () => {
    const wrong = allFiles.filter(({ text }) => !text.startsWith('//')).map(({ path }) => path);
    assert.deepEqual(wrong, []);
  });

  test('lookup tables have no prototype', () => {
    const table = /^(?:export )?const \w+: (?:Readonly<)?Record<string,[^=]*= \{/m;
    assert.deepEqual(
      files.filter(({ code }) => table.test(code)).map(({ path }) => path),
      [],
      'create them with byName of runtime/by-name.ts',
    );
  });

  test('the source contains no TODO marks', () => {
    const marks = /\b(TODO|FIXME|XXX)\b/;
    assert.deepEqual(
      allFiles.filter(({ text }) => marks.test(text)).map(({ path }) => path),
      [],
    );
  });
});

function either(...parts: RegExp[]): RegExp {
  return new RegExp(parts.map(({ source }) => source).join('|'));
}

const anyDdl = { engine: 'sqlite', int: '', blob: '', serial: '', strict: '' } as const;

const inSql = (table: string): RegExp =>
  new RegExp(`\\b(FROM|INTO|JOIN|UPDATE|TABLE|ON) ${table}\\b`);

/** Comments may mention what code must not contain. */
function withoutComments(text: string): string {
  return text.replaceAll(/(^|\s)\/\/.*$/gm, '$1').replaceAll(/(^|\s)\/\*[\s\S]*?\*\//g, '$1');
}
