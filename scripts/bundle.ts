// Bundles src into dist. Finding and reading hundreds of small modules took two thirds of a server's start and a fifth of a
// command's. Dynamic imports stay separate files, so that rare parts are still loaded on first use.
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build, type BuildOptions, type Plugin } from 'esbuild';

const start = 'start.ts';

const ownExtension = 'extname(import.meta.filename)';
const startedByPath =
  /new URL\(\s*([`'"])(\.{1,2}\/[\w./-]+)(?:\.[jt]s|\$\{extname\(import\.meta\.filename\)\})\1,\s*import\.meta\.url/g;

export async function bundle(source: string, dist: string): Promise<void> {
  const first = await startModules(source);
  const main = { ...options({ source, first }), entryPoints: ['main.ts'], splitting: true };
  await build({ ...main, chunkNames: '[name]-[hash]', outdir: dist });
  for (const program of programs(source)) {
    const outfile = join(dist, `${program}.js`);
    const folder = dirname(program);
    await build({ ...options({ source, folder }), entryPoints: [`${program}.ts`], outfile });
  }
}

/** Programs and threads that modules start by path. Each is one file at the place that its starter expects. */
function programs(source: string): Set<string> {
  const found = globSync('**/*.ts', { cwd: source }).flatMap((path) => {
    const text = readFileSync(join(source, path), 'utf8');
    const starts = [...text.matchAll(startedByPath)];
    const recognized = starts.filter(([start]) => start.includes(ownExtension)).length;
    if (text.split(ownExtension).length - 1 > recognized) {
      const form = `new URL(\`./name\${${ownExtension}}\`, import.meta.url)`;
      throw new Error(`${path} starts a program that the bundle would not contain. Write ${form}.`);
    }
    return starts.map(([, , name]) => join(dirname(path), name!));
  });
  return new Set(found);
}

/** What every command loads: the static imports of start.ts. */
async function startModules(source: string): Promise<ReadonlySet<string>> {
  const { metafile } = await build({
    ...options({ source }),
    entryPoints: [start],
    metafile: true,
    outdir: 'unused',
    splitting: true,
    write: false,
  });
  const { inputs } = metafile;
  const found = new Set<string>();
  const visit = (path: string) => {
    if (found.has(path)) return;
    found.add(path);
    for (const { path: next, kind, external } of inputs[path]?.imports ?? [])
      if (kind === 'import-statement' && !external) visit(next);
  };
  visit(start);
  return found;
}

interface Place {
  source: string;
  /** Where the output is, relative to dist. */
  folder?: string;
  first?: ReadonlySet<string>;
}

function options(place: Place) {
  const { source } = place;
  return {
    absWorkingDir: source,
    bundle: true,
    // A server keeps the source of every loaded module in memory, two bytes per character if one is not ASCII.
    charset: 'ascii',
    format: 'esm',
    legalComments: 'none',
    minifyWhitespace: true,
    packages: 'external',
    platform: 'node',
    plugins: [modules(place)],
    target: 'node24',
  } satisfies BuildOptions;
}

function modules({ source, folder = '', first }: Place): Plugin {
  const load = (path: string) => {
    const contents = withOwnPath(path, join(source, folder));
    // esbuild puts modules into one file if the same files need them. Everything needs the modules of the start, which are
    // already loaded then: without this line they are scattered over twenty files.
    const grouped = first && path !== join(source, 'main.ts') && !first.has(relative(source, path));
    return grouped ? `${contents}\nimport ${JSON.stringify(join(source, start))};` : contents;
  };
  return {
    name: 'modules',
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.ts$/ }, ({ path }) => ({ contents: load(path), loader: 'ts' })),
  };
}

/** Modules find files next to them. In a bundle, `import.meta` is that of the bundle: point it to the module's own place. */
function withOwnPath(path: string, folder: string): string {
  const text = readFileSync(path, 'utf8');
  if (!text.includes('import.meta.')) return text;
  const file = JSON.stringify(`./${relative(folder, path).replace(/ts$/, 'js')}`);
  const place = JSON.stringify(`/${relative(folder, dirname(path))}`);
  return text
    .replaceAll('import.meta.dirname', `(import.meta.dirname + ${place})`)
    .replaceAll('import.meta.filename', file)
    .replaceAll('import.meta.url', `new URL(${file}, import.meta.url).href`);
}
