// Checks the tool texts that models read: every field is described, limits are mentioned, no text mentions a tool that the
// caller does not have, and the first sentence is short.
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { dialects } from '../src/app.ts';
import { toolNamesIn } from '../src/interfaces/mcp/mentions.ts';
import { ToolRegistry, type ToolSelection } from '../src/interfaces/mcp/toolsets.ts';
import type { Catalog, JsonObject, ToolDefinition } from '../src/interfaces/mcp/source.ts';
import { scopes, type Caller, type Scope } from '../src/operation.ts';
import { startApp } from './helpers/app.ts';

/** Some clients show only this much of a description until the tool is selected. */
const maxFirstSentence = 155;

const callerWith = (...own: Scope[]): Caller => ({
  owner: 'me',
  scopes: new Set(own),
  admin: own.includes('admin'),
  local: true,
});

const { app } = await startApp({ after } as TestContext);
const registry = new ToolRegistry(app.operations, dialects);
const names = new Set([
  ...app.operations.list().map(({ name }) => name),
  ...dialects.flatMap(({ tools = [] }) => tools.map(({ name }) => name)),
]);

const foreign = dialects.filter(({ tools }) => tools).map(({ name }) => name);
const finished: [string, ToolSelection][] = [
  ['default', {}],
  ...foreign.map((name): [string, ToolSelection] => [name, { dialects: [name] }]),
];
const choices: [string, ToolSelection][] = [
  ...finished,
  ...registry.toolsets().map((name): [string, ToolSelection] => [name, { toolsets: [name] }]),
  ['all', { toolsets: ['all'] }],
];
const everything = callerWith(...scopes);

function* schemaFields(schema: JsonObject, path: string): Generator<[string, JsonObject]> {
  const { properties = {}, items } = schema as { properties?: JsonObject; items?: JsonObject };
  for (const [name, part] of Object.entries(properties)) {
    yield [`${path}.${name}`, part as JsonObject];
    yield* schemaFields(part as JsonObject, `${path}.${name}`);
  }
  if (items) yield* schemaFields(items, path);
}

const textsOf = ({ tools, instructions }: Catalog): [string, string][] => [
  ['instructions', instructions],
  ...tools.flatMap((definition): [string, string][] => [
    [definition.name, definition.description],
    [definition.name, String(definition.inputSchema.description ?? '')],
    ...[...schemaFields(definition.inputSchema, definition.name)].map(
      ([path, part]): [string, string] => [path, String(part.description ?? '')],
    ),
  ]),
];

for (const [title, choice] of finished) {
  test(`${title}: every field has a description that mentions its limit`, () => {
    const wrong: string[] = [];
    for (const definition of registry.select(choice).catalog(everything).tools)
      for (const [path, { description, maximum }] of schemaFields(
        definition.inputSchema,
        definition.name,
      )) {
        const text = typeof description === 'string' ? description.trim() : '';
        if (text === '') wrong.push(`${path} is not described`);
        else if (typeof maximum === 'number' && !mentionsNumber(text, maximum))
          wrong.push(`${path} does not mention its limit ${maximum}`);
      }
    assert.deepEqual(wrong, []);
  });

  test(`${title}: first sentences are short, and descriptions match the annotations`, () => {
    const wrong: string[] = [];
    for (const definition of registry.select(choice).catalog(everything).tools)
      wrong.push(...findTextFaults(definition).map((fault) => `${definition.name}: ${fault}`));
    assert.deepEqual(wrong, []);
  });
}

for (const [title, choice] of choices) {
  test(`${title}: no text mentions a tool that the caller does not have`, () => {
    for (const caller of [
      undefined,
      callerWith('read'),
      callerWith('run'),
      callerWith('read', 'run'),
      everything,
    ]) {
      const catalog = registry.select(choice).catalog(caller);
      const present = new Set(catalog.tools.map(({ name }) => name));
      const absent = textsOf(catalog).flatMap(([where, text]) =>
        toolNamesIn(text)
          .filter((name) => names.has(name) && !present.has(name))
          .map((name) => `${where} names ${name}`),
      );
      assert.deepEqual(absent, []);
      for (const { name, description } of catalog.tools)
        assert.ok(description.length > 40, `${name} keeps a description`);
    }
  });
}

test('the essential tools are always loaded', () => {
  const loaded = ({ tools }: Catalog) =>
    tools.filter(({ _meta }) => _meta?.['anthropic/alwaysLoad'] === true).map(({ name }) => name);
  const own = registry.select({}).catalog(everything);
  assert.deepEqual(loaded(own).toSorted(), ['read_output', 'run_command', 'wait_for_jobs']);
  const [paragraph] = own.instructions.split('\n\n');
  for (const name of loaded(own)) assert.ok(paragraph!.includes(name), name);
  assert.match(sentenceOf(own.instructions), /run_command.*your own shell/);
  for (const { name, description } of own.tools)
    assert.match(
      sentenceOf(description),
      /\b(?:use it|prefer it|your own shell|shell command)\b/,
      name,
    );
});

const sentenceOf = (text: string): string => text.split(/(?<=[.!?])\s/)[0]!;

const mentionsNumber = (text: string, number: number): boolean =>
  text.replaceAll(',', '').includes(String(number));

function findTextFaults({ description, annotations }: ToolDefinition): string[] {
  const first = sentenceOf(description);
  const changesNothing = /Changes nothing\.|changes nothing\.$/.test(description);
  const destroys = /^(?:Stop|Kill|Delete|Cancel|Remove|Pay |Runs? a shell)/.test(description);
  return [
    ...(first.length > maxFirstSentence ? [`first sentence has ${first.length} characters`] : []),
    ...(description.length > 600 ? [`has ${description.length} characters`] : []),
    ...(changesNothing && !annotations.readOnlyHint && !/refus/.test(description)
      ? ['says that it changes nothing, but is not read-only']
      : []),
    ...(destroys && annotations.destructiveHint !== true ? ['destroys, but does not say so'] : []),
    ...(!/\b(?:[Uu]se|[Ff]or|[Nn]ot)\b/.test(description) ? ['does not say when to use it'] : []),
  ];
}
