// The surface that others rely on, pinned: every tool's JSON, every route, every error code with its status and exit code.
// What is expected is checked in under test/snapshots; `node test/surface.test.ts --write` writes it anew, and the diff is
// read like any other change of a contract.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { dialects } from '../src/app.ts';
import { errorTable } from '../src/errors.ts';
import { openApiDocument } from '../src/faces/http/openapi.ts';
import { routeOf } from '../src/faces/http/routes.ts';
import { ToolTables } from '../src/faces/mcp/table.ts';
import { instructions } from '../src/faces/mcp/instructions.ts';
import type { ToolCard } from '../src/faces/mcp/source.ts';
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
  const hint = 'If this was meant: node test/surface.test.ts --write';
  const actual = JSON.parse(text) as Record<string, unknown>;
  assert.deepEqual(Object.keys(actual), Object.keys(pinned), `${name}: names differ. ${hint}`);
  for (const [key, value] of Object.entries(actual))
    assert.deepEqual(value, pinned[key], `${name}: ${key} differs. ${hint}`);
}

async function surface(t: TestContext) {
  const { app } = await startApp(t);
  const { operations } = app;
  const never = () => Promise.reject(new Error('a surface is not called'));
  operations.add(
    serverOperations({
      idle: never,
      stop: () => {},
      backup: never,
      saveOutput: never,
    }),
  );
  const tables = new ToolTables(operations, dialects);
  const cards = (choice: Parameters<ToolTables['table']>[0]) =>
    [...tables.table(choice).tools.values()].map((tool) => tool.card);
  return { operations, tables, cards };
}

const byName = (cards: ToolCard[]) => Object.fromEntries(cards.map((card) => [card.name, card]));

test('every tool, of every toolset and dialect', async (t) => {
  const { cards, tables } = await surface(t);
  pin('tools', byName(cards({ toolsets: ['all'] })));
  const toolsets = tables.toolsets().map((name): [string, string[]] => {
    const own = cards({ toolsets: [name] }).map((card) => card.name);
    const base = new Set(cards({}).map((card) => card.name));
    return [name, name === 'default' ? own : own.filter((tool) => !base.has(tool))];
  });
  pin('toolsets', Object.fromEntries(toolsets));
  for (const { name, tools } of dialects) {
    if (tools) pin(`dialect-${name}`, byName(cards({ dialects: [name] })));
  }
});

test('every route', async (t) => {
  const { operations } = await surface(t);
  const own = operations.list().map((operation) => {
    const { method, path } = routeOf(operation);
    return [`${method} ${path}`, `${operation.name} (${operation.scope})`];
  });
  const foreign = dialects.flatMap(({ name, routes = [] }) =>
    routes.map(({ method, path, auth }) => [`${method} ${path}`, `${name} (${auth})`]),
  );
  pin('routes', Object.fromEntries([...own, ...foreign]) as Record<string, unknown>);
});

test('the OpenAPI document lists every route, also of the dialects, each under an id of its own', async (t) => {
  const { operations } = await surface(t);
  const { paths } = openApiDocument(operations.list(), '1', dialects) as {
    paths: Record<string, Record<string, { operationId: string; summary: string }>>;
  };
  const routes = [
    ...operations.list().map(routeOf),
    ...dialects.flatMap(({ routes: foreign = [] }) => foreign),
  ];
  for (const { method, path } of routes) {
    const listed = paths[path.replaceAll('*}', '}')]?.[method.toLowerCase()];
    assert.ok(listed?.summary, `${method} ${path}`);
  }
  const ids = Object.values(paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  assert.deepEqual(ids.length, new Set(ids).size);
});

test('every command of the command line that comes from an operation', async (t) => {
  const { operations } = await surface(t);
  const words = operations.list().flatMap((operation) =>
    commandsOf(operation).map((cli) => {
      const args = (cli.args ?? []).map((arg) => `<${arg}>`).join(' ');
      return [[...cli.words, args].filter(Boolean).join(' '), operation.name];
    }),
  );
  pin('commands', Object.fromEntries(words) as Record<string, unknown>);
});

test('no operation passes over a field that it does not know', async (t) => {
  const { operations } = await surface(t);
  const passing = operations.list().filter(({ input }) => {
    const { error } = input.safeParse({ noSuchField: 1 });
    return !error?.issues.some(({ code }) => code === 'unrecognized_keys');
  });
  assert.deepEqual(
    passing.map(({ name }) => name),
    [],
  );
});

test('every error code with its HTTP status and exit code', async (t) => {
  await surface(t);
  pin('errors', Object.fromEntries(errorTable()));
});

test('the default tool list is small: at most 15 tools and 18 kB', async (t) => {
  const { cards } = await surface(t);
  // As clients of 2025 get them, which are told a little more.
  const task = { execution: { taskSupport: 'optional' } };
  const shown = cards({}).map(({ startsJob, ...card }) => ({
    ...card,
    ...(startsJob ? task : {}),
  }));
  assert.ok(shown.length <= 15, `${shown.length} tools`);
  const bytes = Buffer.byteLength(JSON.stringify({ tools: shown }));
  assert.ok(bytes <= 18_000, `${bytes} bytes`);
  assert.ok(Buffer.byteLength(instructions) < 2000);
});

test('what the default tools start can be read with them', async (t) => {
  const { cards } = await surface(t);
  const shown = cards({});
  const names = new Set(shown.map(({ name }) => name));
  const told = shown.flatMap(({ description }) =>
    [...description.matchAll(/\b(?:read|follow(?:ed)?|stop(?:ped)?) (?:it )?with (\w+_\w+)/gi)].map(
      ([, name]) => name!,
    ),
  );
  assert.ok(told.includes('read_pages'));
  assert.deepEqual(
    told.filter((name) => !names.has(name)),
    [],
  );
});

test('every description says what, when, when not, and names its neighbours', async (t) => {
  const { cards } = await surface(t);
  const all = cards({ toolsets: ['all'] });
  const names = all.map((card) => card.name);
  const defaults = new Set(cards({}).map((card) => card.name));
  const wrong: string[] = [];
  for (const { name, title, description, annotations } of all) {
    const say = (what: string) => wrong.push(`${name}: ${what}`);
    if (!/^[a-z]+(_[a-z0-9]+)+$/.test(name)) say('is not verb_noun');
    if (!title || title.toLowerCase() === description.toLowerCase()) say('has no title of its own');
    if (description.length > 600) say(`has ${description.length} characters`);
    const isNamed = names.some((other) => other !== name && description.includes(other));
    if (!isNamed) say('names no neighbour');
    if (!/\b(use|for|when|before|after|first|to the)\b/i.test(description))
      say('does not say when to use it');
    // Another tool for another purpose also says when not to use this one; what every client sees says it outright.
    const isOutright = /\b(not|never|instead|only|unless|without|no)\b/i.test(description);
    if (!isOutright && (defaults.has(name) || !isNamed)) say('does not say when not to use it');
    if (annotations.readOnlyHint && annotations.destructiveHint) say('reads and destroys');
  }
  assert.deepEqual(wrong, []);
});
