// Bundles the browser code with esbuild and compresses the result. The package is built with it; in a clone the server calls
// it at the first request.
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

export interface Asset {
  /** File name with a hash of the contents. */
  name: string;
  type: string;
  bytes: Buffer;
  gzip: Buffer;
  brotli: Buffer;
}

export interface Bundle {
  /** Names of the files that the HTML document refers to. */
  entries: Entries;
  assets: Asset[];
}

export interface Entries {
  script: string;
  styles: string;
  worker: string;
  terminalStyles: string;
  icon: string;
}

const source = join(import.meta.dirname, 'browser');

const entryPoints: Readonly<Record<keyof Entries, string>> = {
  script: 'main.tsx',
  styles: 'styles/main.css',
  worker: 'stream/worker.ts',
  terminalStyles: 'styles/terminal.css',
  icon: 'icon.svg',
};

export async function bundleDashboard(): Promise<Bundle> {
  const { build, stop } = await import('esbuild');
  try {
    const { outputFiles, metafile } = await build({
      absWorkingDir: source,
      entryPoints: Object.values(entryPoints),
      entryNames: '[name]-[hash]',
      chunkNames: 'chunk-[hash]',
      assetNames: '[name]-[hash]',
      outdir: 'out',
      outbase: source,
      bundle: true,
      splitting: true,
      minify: true,
      format: 'esm',
      target: 'es2023',
      jsx: 'automatic',
      jsxImportSource: 'preact',
      loader: { '.svg': 'copy' },
      legalComments: 'none',
      write: false,
      metafile: true,
    });
    const names = new Map(
      Object.entries(metafile.outputs).map(([path, { entryPoint }]) => [
        entryPoint,
        baseName(path),
      ]),
    );
    const entry = (name: keyof Entries) => names.get(entryPoints[name])!;
    return {
      entries: {
        script: entry('script'),
        styles: entry('styles'),
        worker: entry('worker'),
        terminalStyles: entry('terminalStyles'),
        icon: entry('icon'),
      },
      assets: await Promise.all(
        outputFiles.map(({ path, contents }) => toAsset(baseName(path), Buffer.from(contents))),
      ),
    };
  } finally {
    await stop();
  }
}

async function toAsset(name: string, bytes: Buffer): Promise<Asset> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  const [gzipped, brotli] = await Promise.all([
    promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
    promisify(brotliCompress)(bytes, { params }),
  ]);
  return { name, type: typeOf(name), bytes, gzip: gzipped, brotli };
}

export function typeOf(name: string): string {
  if (name.endsWith('.js')) return 'text/javascript; charset=utf-8';
  if (name.endsWith('.css')) return 'text/css; charset=utf-8';
  return 'image/svg+xml';
}

const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
