// The files of the dashboard: prebuilt in the package, bundled at the first request in a clone.
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleDashboard, typeOf, type Asset, type Bundle, type Entries } from './bundle.ts';

export interface Assets {
  entries: Entries;
  byName: ReadonlyMap<string, Asset>;
}

const folder = join(import.meta.dirname, 'assets');
const entriesFile = 'entries.json';

export async function loadAssets(): Promise<Assets> {
  const { entries, assets } = existsSync(join(folder, entriesFile))
    ? await readBundle(folder)
    : await bundleDashboard();
  return { entries, byName: new Map(assets.map((asset) => [asset.name, asset])) };
}

export async function writeBundle(target: string): Promise<void> {
  const { entries, assets } = await bundleDashboard();
  await mkdir(target, { recursive: true });
  await writeFile(join(target, entriesFile), JSON.stringify(entries));
  for (const { name, bytes, gzip, brotli } of assets) {
    await writeFile(join(target, name), bytes);
    await writeFile(join(target, `${name}.gz`), gzip);
    await writeFile(join(target, `${name}.br`), brotli);
  }
}

async function readBundle(from: string): Promise<Bundle> {
  const read = (name: string) => readFile(join(from, name));
  const entries = JSON.parse((await read(entriesFile)).toString()) as Entries;
  const names = (await readdir(from)).filter((name) => /\.(js|css|svg)$/.test(name));
  const assets = names.map(async (name) => {
    const [bytes, gzip, brotli] = await Promise.all([
      read(name),
      read(`${name}.gz`),
      read(`${name}.br`),
    ]);
    return { name, type: typeOf(name), bytes, gzip, brotli };
  });
  return { entries, assets: await Promise.all(assets) };
}
