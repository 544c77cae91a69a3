// What registries and clients read about the package: server.json, the plugin folder, the skill and the bundle's manifest.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { z } from 'zod';
import { bundleManifest } from '../scripts/client-bundle.ts';
import { registryEntry, type PackageFacts } from '../scripts/registry.ts';

const root = join(import.meta.dirname, '..');
const textOf = (path: string) => readFileSync(join(root, path), 'utf8');
const jsonOf = <T = Record<string, unknown>>(path: string) => JSON.parse(textOf(path)) as T;
const facts = jsonOf<PackageFacts & { license: string; engines: { node: string } }>('package.json');

/** The rules of the registry's schema 2025-12-11 for an npm package. */
const version = z
  .string()
  .max(255)
  .regex(/^(?![\^~<>=*])\S+$/, 'not a range');
const serverEntry = z.strictObject({
  $schema: z.literal(
    'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
  ),
  name: z
    .string()
    .min(3)
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  title: z.string().min(1).max(100),
  description: z.string().min(1).max(100),
  version,
  packages: z
    .array(
      z.strictObject({
        registryType: z.enum(['npm', 'pypi', 'oci', 'nuget', 'mcpb']),
        identifier: z.string(),
        version: version.refine((text) => text !== 'latest'),
        runtimeHint: z.string(),
        transport: z.strictObject({ type: z.enum(['stdio', 'streamable-http', 'sse']) }),
        packageArguments: z.array(
          z.strictObject({ type: z.literal('positional'), value: z.string() }),
        ),
        environmentVariables: z.array(
          z.strictObject({
            name: z.string().regex(/^[A-Z_][A-Z0-9_]*$/),
            description: z.string(),
            isRequired: z.boolean(),
          }),
        ),
      }),
    )
    .min(1),
});

test('server.json is valid, current, and has the name of the package', () => {
  const entry = serverEntry.parse(jsonOf('server.json'));
  assert.deepEqual(entry, registryEntry(facts), 'npm run registry writes it');
  assert.equal(entry.name, facts.mcpName);
  const named = registryEntry({ ...facts, mcpName: 'io.github.acme/errand' });
  assert.equal(serverEntry.parse(named).name, 'io.github.acme/errand');
});

test('the plugin serves Claude Code and Codex: manifests, server, skill, monitor, commands', () => {
  for (const client of ['claude', 'codex']) {
    const manifest = jsonOf<PackageFacts>(`plugin/.${client}-plugin/plugin.json`);
    assert.deepEqual([manifest.name, manifest.version], [facts.name, facts.version]);
  }
  const [plugin] = jsonOf<{ plugins: { source: string }[] }>(
    '.claude-plugin/marketplace.json',
  ).plugins;
  assert.ok(existsSync(join(root, plugin!.source, '.claude-plugin/plugin.json')));
  const { mcpServers } = jsonOf<{ mcpServers: object }>('plugin/.mcp.json');
  assert.deepEqual(mcpServers, { errand: { command: 'errand', args: ['mcp'] } });
  const monitors = jsonOf<{ name: string; command: string; description: string }[]>(
    'plugin/monitors/monitors.json',
  );
  assert.deepEqual(
    monitors.map(({ command }) => command),
    ['errand watch --mine'],
  );
  for (const name of readdirSync(join(root, 'plugin/commands')))
    assert.ok(frontmatter(`plugin/commands/${name}`).description, name);
});

test('the skill has a name, a description that says when, and mentions only tools that exist', () => {
  const path = 'plugin/skills/errand/SKILL.md';
  const { name, description } = frontmatter(path);
  assert.equal(name, 'errand');
  assert.ok(description!.length <= 1024 && /Use it for/.test(description!));
  const tools = jsonOf('test/snapshots/tools.json');
  const named = [...textOf(path).matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)].map(([, tool]) => tool!);
  const unknown = named.filter((tool) => !(tool in tools) && tool !== 'input_required');
  assert.ok(named.length > 5);
  assert.deepEqual(unknown, []);
  assert.ok(textOf(path).split('\n').length < 100, 'a model reads all of it');
});

function frontmatter(path: string): Record<string, string> {
  const [, text] = /^---\n([^]*?)\n---\n/.exec(textOf(path))!;
  return parse(text!) as Record<string, string>;
}

test('the manifest of the bundle says which Node it needs and what it starts', () => {
  const manifest = bundleManifest(facts);
  assert.equal(manifest.compatibility.runtimes.node, facts.engines.node);
  assert.equal(manifest.version, facts.version);
  assert.ok(existsSync(join(root, manifest.server.entry_point)));
});
