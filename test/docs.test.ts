// Links, files, settings and commands in the docs exist. scripts/docs.ts checks the generated parts.
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { kinds } from '../src/app.ts';
import { configSchema } from '../src/config.ts';
import { aliases } from '../src/interfaces/cli/aliases.ts';

const root = join(import.meta.dirname, '..');
const pages = globSync(['*.md', 'docs/*.md', 'bench/*.md'], { cwd: root })
  .filter((path) => path !== 'docs/operations.md')
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** Matches of a pattern in the pages for which `isWrong` returns true. */
function wrong(pattern: RegExp, isWrong: (found: string, page: string) => boolean): string[] {
  return pages.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)]
      .filter(([, found]) => isWrong(found!, path))
      .map(([, found]) => `${path}: ${found}`),
  );
}

test('links point to existing files', () => {
  const missing = wrong(
    /\]\(([^)#\s]+)[^)]*\)/g,
    (link, page) => !/^https?:/.test(link) && !existsSync(join(root, dirname(page), link)),
  );
  assert.deepEqual(missing, []);
});

test('mentioned files exist', () => {
  const missing = wrong(
    /`((?:test|src|scripts|docs|deploy|contracts)\/[\w./*-]+)`/g,
    (file) => globSync(file, { cwd: root }).length === 0,
  );
  assert.deepEqual(missing, []);
});

test('mentioned settings exist', () => {
  const settings = settingNames(configSchema(kinds) as Schema);
  const sections = new Set([...settings].filter((name) => !name.includes('.')));
  const missing = wrong(
    /`(\w+(?:\.\w+)+)`/g,
    (name) =>
      sections.has(name.split('.')[0]!) && !settings.has(name) && !/\.(ts|log|json)$/.test(name),
  );
  assert.deepEqual(missing, []);
});

test('mentioned commands exist', () => {
  const operations = readFileSync(join(root, 'docs/operations.md'), 'utf8');
  const generated = [...operations.matchAll(/`errand ([a-z -]+)`/g)].map(([, words]) => words!);
  const cli = readFileSync(join(root, 'src/interfaces/cli/cli.ts'), 'utf8');
  const [, table] = /const commands: .* = byName\(\{([^}]*)\}/.exec(cli)!;
  const written = [...table!.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name!);
  const known = [...generated, ...written, ...Object.keys(aliases), 'help'];
  assert.ok(known.includes('run') && known.includes('queue set'));
  // Includes the first word of command groups: `errand work …`.
  const isTyped = (line: string) =>
    known.some((words) => line === words || line.startsWith(`${words} `) || words.startsWith(`${line} `)); // prettier-ignore
  const missing = wrong(
    /(?:^|[`$(]|&& )(?:bin\/errand\.js|errand) ([a-z][a-z -]*[a-z])/gm,
    (line) => !isTyped(line),
  );
  assert.deepEqual(missing, []);
});

interface Schema {
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
}

function settingNames(schema: Schema, prefix = ''): Set<string> {
  const { properties = {}, additionalProperties: each } = schema;
  const inner = typeof each === 'object' ? settingNames(each, prefix) : [];
  const own = Object.entries(properties).flatMap(([name, property]) => [
    `${prefix}${name}`,
    ...settingNames(property, `${prefix}${name}.`),
  ]);
  return new Set([...own, ...inner]);
}
