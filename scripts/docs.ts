// Writes the generated parts of the docs from the operation list, the settings and the error table, and wraps the prose of
// all pages. With --check it only verifies that they are up to date.
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createApp, dialects, kinds } from '../src/app.ts';
import { configSchema, loadConfig } from '../src/config.ts';
import { errorTable } from '../src/errors.ts';
import { routeOf } from '../src/interfaces/http/routes.ts';
import { openHome } from '../src/home.ts';
import { commandsOf, type Operation } from '../src/operation.ts';
import { serverOperations } from '../src/server-operations.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { silentLog } from '../src/runtime/log.ts';
import { wrapMarkdown } from './wrap.ts';

const root = join(import.meta.dirname, '..');
const check = process.argv.includes('--check');
const stale: string[] = [];
const msUnits: [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];
const byteUnits: [string, number][] = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
];

const operations = await listOperations();
put('docs/operations.md', wrapMarkdown(operationsPage(operations)));
put('docs/config.schema.json', `${JSON.stringify(configSchema(kinds), null, 2)}\n`);
put('docs/settings.md', wrapMarkdown(settingsPage()));
between('README.md', 'tools', toolsTable(operations));
for (const page of globSync(['*.md', '{docs,bench,examples}/**/*.md'], { cwd: root }))
  if (!page.includes('node_modules'))
    put(page, wrapMarkdown(readFileSync(join(root, page), 'utf8')));
if (stale.length > 0) {
  console.error(`out of date: ${stale.join(', ')}; run \`npm run docs\``);
  process.exit(1);
}
process.exit(0);

/** The operations of a real app with a temporary home. */
async function listOperations(): Promise<Operation[]> {
  const path = mkdtempSync(join(tmpdir(), 'errand-docs-'));
  const home = openHome(path);
  const config = loadConfig({ home: path, sections: kinds }, {});
  const never = () => Promise.reject(new Error('the docs call no operation'));
  const app = await createApp({
    config,
    home,
    clock: systemClock,
    log: silentLog,
    baseUrl: () => undefined,
    openBaseUrl: never,
  });
  app.operations.add(
    serverOperations({
      describe: never,
      idle: never,
      stop: () => {},
      backup: never,
      saveOutput: never,
    }),
  );
  const list = app.operations.list();
  await app.stop();
  rmSync(path, { recursive: true, force: true });
  return list;
}

function operationsPage(list: readonly Operation[]): string {
  const rows = list
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map((operation) => {
      const { method, path } = routeOf(operation);
      const words = commandsOf(operation)
        .map((cli) => `\`errand ${cli.words.join(' ')}\``)
        .join(', ');
      const sets = (operation.toolsets ?? []).join(', ');
      return `| \`${operation.name}\` | ${method} \`${path}\` | ${words} | ${sets} | ${operation.scope} | ${operation.effect} |`;
    });
  const details = list
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map(
      (operation) => `### ${operation.name}\n\n${operation.description}\n\n${fields(operation)}`,
    );
  const errors = errorTable().map(
    ([code, { http, exit, retryable }]) =>
      `| \`${code}\` | ${http} | ${exit} | ${retryable ? 'yes' : 'no'} |`,
  );
  const foreign = dialects.map(
    ({ name, tools = [], routes = [] }) =>
      `| \`${name}\` | ${tools.length > 0 ? tools.map((tool) => `\`${tool.name}\``).join(', ') : '–'} | ${routes.length} |`,
  );
  return `# Operations

Generated from the operation list by \`npm run docs\`. An operation is defined once; this table shows its interfaces.

| operation (MCP tool) | HTTP | command line | toolsets | scope | effect |
|---|---|---|---|---|---|
${rows.join('\n')}

## Dialects

| dialect | MCP tools | HTTP routes |
|---|---|---|
${foreign.join('\n')}

## Errors

| code | HTTP | exit code | worth repeating |
|---|---|---|---|
${errors.join('\n')}

## Details

${details.join('\n\n')}
`;
}

function fields(operation: Operation): string {
  const schema = z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' }) as {
    properties?: Record<
      string,
      { type?: string; description?: string; enum?: unknown[]; default?: unknown }
    >;
    required?: string[];
  };
  const rows = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const type = property.enum ? property.enum.map(String).join(' \\| ') : (property.type ?? 'any');
    const more = [
      property.description,
      property.default === undefined ? undefined : `default ${JSON.stringify(property.default)}`,
    ];
    const text = more.filter(Boolean).join('; ').replaceAll('|', '\\|').replaceAll('\n', ' ');
    return `| \`${name}\`${schema.required?.includes(name) ? ' *' : ''} | ${type} | ${text} |`;
  });
  return rows.length === 0 ? 'No input.' : `| field | type | |\n|---|---|---|\n${rows.join('\n')}`;
}

function settingsPage(): string {
  const schema = configSchema(kinds) as { properties: Record<string, Property> };
  const sections = Object.entries(schema.properties)
    .filter(([name]) => name !== '$schema')
    .map(
      ([name, section]) =>
        `## ${name}\n\n| setting | default | |\n|---|---|---|\n${settingRows(section).join('\n')}`,
    );
  return `# Settings

Generated by \`npm run docs\`. Put settings into \`config.json\` in the home. The server does not start with an invalid setting. Its JSON Schema is
[config.schema.json](config.schema.json). Times are in milliseconds, sizes in bytes.

${sections.join('\n\n')}
`;
}

interface Property {
  properties?: Record<string, Property>;
  additionalProperties?: Property | boolean;
  default?: unknown;
  description?: string;
  type?: string;
}

/** One row per setting. Nested settings have their full name; entries of a map are under `<name>`. */
function settingRows(section: Property, prefix = ''): string[] {
  const { additionalProperties: each } = section;
  if (each && typeof each === 'object' && each.properties)
    return settingRows(each, `${prefix}<name>.`);
  return Object.entries(section.properties ?? {}).flatMap(([name, property]) => {
    const inner = settingRows(property, `${prefix}${name}.`);
    const isEmpty = JSON.stringify(property.default ?? {}) === '{}';
    const value = isEmpty ? '' : defaultText(name, property.default);
    const text = (property.description ?? '').replaceAll('|', '\\|');
    if (inner.length > 0 && text === '' && isEmpty) return inner;
    return [`| \`${prefix}${name}\` | ${value} | ${text} |`, ...inner];
  });
}

function defaultText(name: string, value: unknown): string {
  const text = `\`${JSON.stringify(value).slice(0, 120)}\``;
  if (typeof value !== 'number' || value === 0) return text;
  const units = /Ms/.test(name) ? msUnits : /[bB]ytes/.test(name) ? byteUnits : [];
  const unit = units.find(([, size]) => value >= size && value % size === 0);
  return unit ? `${text} (${value / unit[1]} ${unit[0]})` : text;
}

function toolsTable(list: readonly Operation[]): string {
  const shown = list.filter(({ toolsets }) => toolsets?.includes('default'));
  return `| tool | |\n|---|---|\n${shown.map(({ name, description }) => `| \`${name}\` | ${description.split(/(?<=\.) /)[0]} |`).join('\n')}`;
}

function between(file: string, mark: string, text: string): void {
  const path = join(root, file);
  if (!existsSync(path)) return;
  const now = readFileSync(path, 'utf8');
  const [open, close] = [`<!-- ${mark}: generated -->`, `<!-- /${mark} -->`];
  if (!now.includes(open)) return;
  const before = now.slice(0, now.indexOf(open) + open.length);
  put(file, `${before}\n${text}\n${now.slice(now.indexOf(close))}`);
}

function put(file: string, text: string): void {
  const path = join(root, file);
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  stale.push(file);
  if (check) return;
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  console.log(`wrote ${file}`);
  stale.pop();
}
