// `npm run bundle [-- FOLDER]`: builds errand-VERSION.mcpb, the package as one file that desktop clients install (MCPB).
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { zipFolder } from './zip.ts';

const root = join(import.meta.dirname, '..');

interface Package {
  name: string;
  version: string;
  description: string;
  license: string;
  engines: { node: string };
}

/** The manifest names the Node that Errand needs, so that a client with an older one refuses the bundle. */
export function bundleManifest({ name, version, description, license, engines }: Package) {
  return {
    manifest_version: '0.4',
    name,
    display_name: 'Errand',
    version,
    description,
    author: { name: 'Errand contributors' },
    license,
    server: {
      type: 'node',
      entry_point: 'bin/errand.js',
      mcp_config: { command: 'node', args: ['${__dirname}/bin/errand.js', 'mcp'] },
    },
    tools_generated: true,
    compatibility: { platforms: ['darwin', 'linux'], runtimes: { node: engines.node } },
  };
}

/** Packs the package with its production dependencies. Returns the path of the bundle. */
export function buildBundle(source: string, target: string): string {
  const work = mkdtempSync(join(tmpdir(), 'errand-bundle-'));
  try {
    // The build needs the Node that runs this script.
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
    const npm = (args: string[], cwd: string) =>
      execFileSync('npm', [...args, '--loglevel=error'], { cwd, env, encoding: 'utf8' });
    const listed = npm(['pack', '--json', '--pack-destination', work], source);
    const [{ filename }] = Object.values(JSON.parse(listed.slice(listed.search(/^[[{]/m)))) as [
      { filename: string },
    ];
    execFileSync('tar', ['-xzf', join(work, filename), '-C', work]);
    const folder = join(work, 'package');
    const lock = join(source, 'package-lock.json');
    if (existsSync(lock)) cpSync(lock, join(folder, 'package-lock.json'));
    npm(
      [
        'ci',
        '--omit=dev',
        '--omit=optional',
        '--omit=peer',
        '--ignore-scripts',
        '--prefer-offline',
      ],
      folder,
    );
    rmSync(join(folder, 'package-lock.json'), { force: true });
    const facts = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Package;
    const manifest = JSON.stringify(bundleManifest(facts), undefined, 2);
    writeFileSync(join(folder, 'manifest.json'), `${manifest}\n`);
    const path = join(target, `${facts.name}-${facts.version}.mcpb`);
    writeFileSync(path, zipFolder(folder));
    return path;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [folder = root] = process.argv.slice(2);
  console.log(`wrote ${buildBundle(root, resolve(folder))}`);
}
