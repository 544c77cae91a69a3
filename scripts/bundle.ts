// Bundles the modules that every CLI command imports into dist/bundle.js, because finding and reading thirty small modules
// took a fifth of a command's run time. Each bundled file becomes a re-export, so that every module still exists once.
import { globSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

const bundleFile = 'bundle.js';
/** Small programs that run next to jobs. Their imports are not bundled, so that they stay small. */
const ownPrograms = 'kinds/**/{*-main,terminal-shim}.js';

export async function bundleStart(dist: string): Promise<void> {
  const separate = new Set(await importedBy(dist, globSync(ownPrograms, { cwd: dist })));
  const started = await importedBy(dist, ['start.js']);
  const modules = await Promise.all(
    started.filter((path) => !separate.has(path)).map((path) => moduleAt(dist, path)),
  );
  const contents = modules.map(({ path, names }, at) => {
    return `export { ${names.map((name) => `${name} as ${name}$${at}`).join(', ')} } from './${path}';`;
  });
  await build({
    ...common(dist, [externals(dist, separate)]),
    stdin: { contents: contents.join('\n'), resolveDir: dist },
    outfile: bundleFile,
  });
  for (const [at, { path, names }] of modules.entries()) {
    const from = join(relative(dirname(path), '.'), bundleFile);
    const list = names.map((name) => `${name}$${at} as ${name}`).join(', ');
    const specifier = from.startsWith('.') ? from : `./${from}`;
    writeFileSync(join(dist, path), `export { ${list} } from '${specifier}';\n`);
  }
}

async function moduleAt(dist: string, path: string): Promise<{ path: string; names: string[] }> {
  const exported = (await import(pathToFileURL(join(dist, path)).href)) as object;
  return { path, names: Object.keys(exported) };
}

/** Paths of all modules that these entry points load, without dynamic imports. */
async function importedBy(dist: string, entryPoints: string[]): Promise<string[]> {
  const { metafile } = await build({
    ...common(dist, [externals(dist, new Set())]),
    entryPoints,
    outdir: 'unused',
    write: false,
    metafile: true,
  });
  return Object.keys(metafile.inputs);
}

function common(dist: string, plugins: Plugin[]) {
  return {
    absWorkingDir: dist,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    packages: 'external',
    plugins,
  } as const satisfies Record<string, unknown>;
}

/** Dynamic imports and separate modules stay imports. The bundle is in the root of dist. */
function externals(dist: string, separate: ReadonlySet<string>): Plugin {
  return {
    name: 'externals',
    setup: ({ onResolve }) => {
      onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) => {
        const found = relative(dist, join(resolveDir, path));
        if (kind !== 'dynamic-import' && !separate.has(found)) return undefined;
        return { path: `./${found}`, external: true };
      });
    },
  };
}
