// `npm run registry [-- NAMESPACE]`: writes server.json for the MCP registry from package.json. With a namespace, such as
// io.github.acme, it also sets mcpName in package.json: the registry requires both names to be equal.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');

export interface PackageFacts {
  name: string;
  version: string;
  description: string;
  mcpName: string;
}

/** The entry of the registry: one npm package that is started over stdio. */
export function registryEntry({ name, version, mcpName }: PackageFacts): Record<string, unknown> {
  return {
    $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
    name: mcpName,
    title: 'Errand',
    description: 'Durable background jobs for agents: commands, endpoints, crawls, hired work',
    version,
    packages: [
      {
        registryType: 'npm',
        identifier: name,
        version,
        runtimeHint: 'npx',
        transport: { type: 'stdio' },
        packageArguments: [{ type: 'positional', value: 'mcp' }],
        environmentVariables: [
          {
            name: 'ERRAND_HOME',
            description:
              'Folder with the database, keys and output; a folder of the user by default',
            isRequired: false,
          },
        ],
      },
    ],
  };
}

const readPackage = (): PackageFacts =>
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as PackageFacts;

if (import.meta.main) {
  const [namespace] = process.argv.slice(2);
  if (namespace !== undefined) {
    if (!/^[a-z0-9]+([.-][A-Za-z0-9]+)+$/.test(namespace))
      throw new Error(`${namespace} is not a namespace such as io.github.acme.`);
    const file = join(root, 'package.json');
    const text = readFileSync(file, 'utf8');
    const { name } = readPackage();
    writeFileSync(file, text.replace(/("mcpName": ")[^"]*/, `$1${namespace}/${name}`));
  }
  const entry = registryEntry(readPackage());
  writeFileSync(join(root, 'server.json'), `${JSON.stringify(entry, undefined, 2)}\n`);
  console.log(`wrote server.json for ${String(entry.name)}`);
}
