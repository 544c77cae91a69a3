// Renames settings of earlier versions in config.json: bounds were called `bytesMax` and are called `maxBytes` now, and
// the section of the endpoint kind was called `endpoints`.
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const oldBound = /"([a-z]\w*?)(Max|Min)"(?=\s*:)/g;

/** Returns the text with current names. Only keys whose new name is a setting are renamed, so that other keys stay. */
export function upgradeConfigText(text: string, schema: () => unknown): string {
  const current = renameSection(text, 'endpoints', 'endpoint');
  if (current.search(oldBound) < 0) return current;
  const settings = settingNames(schema());
  return current.replaceAll(oldBound, (key, name: string, bound: string) => {
    const renamed = `${bound.toLowerCase()}${name.charAt(0).toUpperCase()}${name.slice(1)}`;
    return settings.has(renamed) ? `"${renamed}"` : key;
  });
}

/** Renames a top-level key. Nested keys with the same name, such as endpoint ids, stay; so does a file with both names. */
function renameSection(text: string, before: string, after: string): string {
  let depth = 0;
  let found: number | undefined;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && token.startsWith(`"${after}"`) && token.endsWith(':')) return text;
    else if (depth === 1 && token.startsWith(`"${before}"`) && token.endsWith(':')) found = index;
  }
  if (found === undefined) return text;
  return `${text.slice(0, found)}"${after}"${text.slice(found + before.length + 2)}`;
}

/** Rewrites the home's config.json if it has old names, and keeps the original as `config.json.old`. Returns whether it did. */
export function upgradeConfigFile(home: string, schema: () => unknown): boolean {
  const path = join(home, 'config.json');
  if (!existsSync(path)) return false;
  const text = readFileSync(path, 'utf8');
  const upgraded = upgradeConfigText(text, schema);
  if (upgraded === text) return false;
  const mode = statSync(path).mode & 0o777;
  writeFileSync(`${path}.old`, text, { mode });
  writeFileSync(`${path}.new`, upgraded, { mode });
  renameSync(`${path}.new`, path);
  return true;
}

/** The names of all settings in the JSON Schema of config.json, on every level. */
function settingNames(schema: unknown, names = new Set<string>()): Set<string> {
  if (typeof schema !== 'object' || schema === null) return names;
  if (Array.isArray(schema)) {
    for (const one of schema) settingNames(one, names);
    return names;
  }
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'properties') for (const name of Object.keys(value as object)) names.add(name);
    settingNames(value, names);
  }
  return names;
}
