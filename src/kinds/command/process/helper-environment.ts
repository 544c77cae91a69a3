// Renames payload variables that would also affect the Node program that holds its terminal (`--inspect` opens a port, a
// preload runs twice). The helper restores the original names for the payload.

const nodeNames = ['NODE_OPTIONS', 'NODE_V8_COVERAGE'];
const prefix = 'ERRAND_PAYLOAD_';

export function helperEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  return renameKeys(env, (name) => (nodeNames.includes(name) ? `${prefix}${name}` : name));
}

export function ownEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  return renameKeys(env, (name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name));
}

function renameKeys(
  env: Readonly<Record<string, string | undefined>>,
  nameOf: (name: string) => string,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined ? [] : [[nameOf(name), value]],
    ),
  );
}
