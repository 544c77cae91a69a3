// Pins the public surface: every tool's JSON, every route, every error code with its status and exit code. The expected
// values are in test/snapshots. `node test/surface.test.ts --write` rewrites them; review the diff like any contract change.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { z } from 'zod';
import { dialects } from '../src/app.ts';
import { errorTable } from '../src/errors.ts';
import { openApiDocument } from '../src/interfaces/http/openapi.ts';
import { routeOf } from '../src/interfaces/http/routes.ts';
import { ToolRegistry } from '../src/interfaces/mcp/toolsets.ts';
import { instructions } from '../src/interfaces/mcp/instructions.ts';
import type { ToolDefinition } from '../src/interfaces/mcp/source.ts';
import { commandsOf } from '../src/operation.ts';
import { serverOperations } from '../src/server-operations.ts';
import { startApp } from './helpers/app.ts';

const folder = join(import.meta.dirname, 'snapshots');
const isWriting = process.argv.includes('--write');

/** One line per entry, so that a diff shows what changed. */
function pin(name: string, entries: Record<string, unknown>): void {
  const lines = Object.entries(entries)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  const text = `{\n${lines.join(',\n')}\n}\n`;
  const path = join(folder, `${name}.json`);
  if (isWriting) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, text);
  }
  const pinned = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  const hint = 'If the change is intended, run: node test/surface.test.ts --write';
  const actual = JSON.parse(text) as Record<string, unknown>;
  assert.deepEqual(Object.keys(actual), Object.keys(pinned), `${name}: names differ. ${hint}`);
  for (const [key, value] of Object.entries(actual))
    assert.deepEqual(value, pinned[key], `${name}: ${key} differs. ${hint}`);
}

const { app } = await startApp({ after } as TestContext);
const { operations } = app;
const never = () => Promise.reject(new Error('this test calls no operation'));
operations.add(
  serverOperations({
    describe: never,
    idle: never,
    stop: () => {},
    backup: never,
    saveOutput: never,
  }),
);
const registry = new ToolRegistry(operations, dialects);
const definitions = (choice: Parameters<ToolRegistry['select']>[0]) =>
  [...registry.select(choice).tools.values()].map((tool) => tool.definition);

const byName = (definitions: ToolDefinition[]) =>
  Object.fromEntries(definitions.map((definition) => [definition.name, definition]));

test('tools of every toolset and dialect match the snapshot', () => {
  pin('tools', byName(definitions({ toolsets: ['all'] })));
  const toolsets = registry.toolsets().map((name): [string, string[]] => {
    const own = definitions({ toolsets: [name] }).map((definition) => definition.name);
    const base = new Set(definitions({}).map((definition) => definition.name));
    return [name, name === 'default' ? own : own.filter((tool) => !base.has(tool))];
  });
  pin('toolsets', Object.fromEntries(toolsets));
  for (const { name, tools } of dialects) {
    if (tools) pin(`dialect-${name}`, byName(definitions({ dialects: [name] })));
  }
});

test('routes match the snapshot', () => {
  const own = operations.list().map((operation) => {
    const { method, path } = routeOf(operation);
    return [`${method} ${path}`, `${operation.name} (${operation.scope})`];
  });
  const foreign = dialects.flatMap(({ name, routes = [] }) =>
    routes.map(({ method, path, auth }) => [`${method} ${path}`, `${name} (${auth})`]),
  );
  pin('routes', Object.fromEntries([...own, ...foreign]) as Record<string, unknown>);
});

test('operations that list or get are GET routes', () => {
  const wrong = operations.list().filter((operation) => {
    const { method } = routeOf(operation);
    return /^(?:list|get)_/.test(operation.name) && method !== 'GET';
  });
  assert.deepEqual(
    wrong.map(({ name }) => name),
    [],
  );
});

interface Listed {
  operationId: string;
  summary: string;
  tags: string[];
  responses: Record<string, { content?: object }>;
}

test('the OpenAPI documents list every route once, with tag, summary, response and a unique id', () => {
  const source = {
    operations: operations.list(),
    version: '1',
    dialects,
    kinds: operations.kinds,
  };
  type Paths = Record<string, Record<string, Listed>>;
  const [open, internal] = (['public', 'internal'] as const).map(
    (part) => (openApiDocument(source, part) as { paths: Paths }).paths,
  ) as [Paths, Paths];
  const listedIn = (paths: Paths, method: string, path: string) =>
    paths[path.replaceAll('*}', '}')]?.[method.toLowerCase()];
  const routes = [
    ...operations.list().map(routeOf),
    ...dialects.flatMap(({ routes: foreign = [] }) => foreign),
  ];
  for (const { method, path } of routes) {
    const found = [open, internal].flatMap((paths) => listedIn(paths, method, path) ?? []);
    assert.equal(found.length, 1, `${method} ${path}`);
    const { summary, tags, responses } = found[0]!;
    assert.ok(summary && !summary.includes(path), `${method} ${path} has a summary`);
    assert.equal(tags.length, 1);
    const success = Object.keys(responses).find((status) => status.startsWith('2'));
    assert.ok(success === '204' || responses[success!]?.content, `${method} ${path} responds`);
  }
  const all = [open, internal].flatMap((paths) =>
    Object.values(paths).flatMap(Object.values<Listed>),
  );
  const ids = all.map(({ operationId }) => operationId);
  assert.deepEqual(ids.length, new Set(ids).size);
});

test('CLI commands of operations match the snapshot', () => {
  const words = operations.list().flatMap((operation) =>
    commandsOf(operation).map((cli) => {
      const args = (cli.args ?? []).map((arg) => `<${arg}>`).join(' ');
      return [[...cli.words, args].filter(Boolean).join(' '), operation.name];
    }),
  );
  pin('commands', Object.fromEntries(words) as Record<string, unknown>);
});

test('every operation rejects unknown fields', () => {
  const lenient = operations.list().filter(({ input }) => {
    const { error } = input.safeParse({ noSuchField: 1 });
    return !error?.issues.some(({ code }) => code === 'unrecognized_keys');
  });
  assert.deepEqual(
    lenient.map(({ name }) => name),
    [],
  );
});

test('a wait of any length is accepted: it is clamped, never rejected', () => {
  const waits = operations.list().filter(({ input }) => 'waitMs' in (input as z.ZodObject).shape);
  assert.ok(waits.length > 15, String(waits.length));
  for (const { name, input } of waits) {
    const { waitMs } = (input as z.ZodObject).shape as Record<string, z.ZodType>;
    for (const ms of [-1, 0.5, 120_000, 1e12])
      assert.ok(waitMs!.safeParse(ms).success, `${name} rejects waitMs ${ms}`);
  }
});

test('a response names its job id; jobId only refers from another object to its job', () => {
  const wrong = operations
    .list()
    .filter(({ output, brief }) =>
      [output, brief?.schema].some(
        (one) => one instanceof z.ZodObject && 'jobId' in one.shape && !('id' in one.shape),
      ),
    );
  assert.deepEqual(
    wrong.map(({ name }) => name),
    [],
  );
});

test('error codes match the snapshot with their HTTP status and exit code', () => {
  pin('errors', Object.fromEntries(errorTable()));
});

test('the default tool list is small: at most 15 tools and 18 kB', () => {
  // The larger form, for clients of protocol version 2025.
  const task = { execution: { taskSupport: 'optional' } };
  const shown = definitions({}).map(({ startsJob, ...definition }) => ({
    ...definition,
    ...(startsJob ? task : {}),
  }));
  assert.ok(shown.length <= 15, `${shown.length} tools`);
  const bytes = Buffer.byteLength(JSON.stringify({ tools: shown }));
  assert.ok(bytes <= 18_000, `${bytes} bytes`);
  assert.ok(Buffer.byteLength(instructions) < 2000);
});

test('every description says what the tool does, when to use it and when not, and mentions a related tool', () => {
  const all = definitions({ toolsets: ['all'] });
  const names = all.map((definition) => definition.name);
  const defaults = new Set(definitions({}).map((definition) => definition.name));
  const wrong: string[] = [];
  for (const { name, title, description, annotations } of all) {
    const report = (what: string) => wrong.push(`${name}: ${what}`);
    if (!/^[a-z]+(_[a-z0-9]+)+$/.test(name)) report('is not verb_noun');
    if (!title || title.toLowerCase() === description.toLowerCase()) report('has no title');
    if (description.length > 600) report(`has ${description.length} characters`);
    const isNamed = names.some((other) => other !== name && description.includes(other));
    if (!isNamed) report('mentions no related tool');
    if (!/\b(use|for|when|before|after|first|to the)\b/i.test(description))
      report('does not say when to use it');
    // Mentioning a related tool implies when not to use this one. Default tools must state it explicitly.
    const isExplicit = /\b(not|never|instead|only|unless|without|no)\b/i.test(description);
    if (!isExplicit && (defaults.has(name) || !isNamed)) report('does not say when not to use it');
    if (annotations.readOnlyHint && annotations.destructiveHint) report('reads and destroys');
  }
  assert.deepEqual(wrong, []);
});

test('the public OpenAPI document has no worker routes and no request field with a default', () => {
  const source = { operations: operations.list(), version: '1', dialects };
  const { paths, components } = openApiDocument(source, 'public') as {
    paths: object;
    components: { schemas: Record<string, object> };
  };
  const internal = ['/job-take/', '/job-done/', '/v2/hooks/', '/api/take_jobs', '/api/watch_job'];
  for (const path of internal)
    assert.ok(!Object.keys(paths).some((one) => one.includes(path)), path);
  const requests = Object.entries(components.schemas).filter(([name]) => /Input(_|$)/.test(name));
  assert.ok(requests.length > 50);
  assert.doesNotMatch(JSON.stringify([paths, requests]), /"default":(?!\{"description")/);
});

test('every documented route of a dialect exists', () => {
  for (const { routes = [], routeDocs = {}, name } of dialects) {
    const known = routes.map(({ method, path }) => `${method} ${path}`);
    assert.deepEqual(Object.keys(routeDocs).toSorted(), known.toSorted(), name);
  }
});
