// `npm run audit`: checks that no production dependency runs an install script and that the package contains exactly the
// intended files.
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');

interface LockEntry {
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
  peer?: boolean;
  hasInstallScript?: boolean;
}

/** Direct and indirect production dependencies that run an install script. */
export function installScripts(): string[] {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockEntry>;
  };
  return Object.entries(lock.packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && !dev && !devOptional)
    .filter(([path, { hasInstallScript }]) => hasInstallScript === true || scriptIn(path))
    .map(([path]) => path.replace(/^.*node_modules\//, ''));
}

/** The lock file may omit a script that the installed package has. */
function scriptIn(path: string): boolean {
  const [file] = globSync(join(root, path, 'package.json'));
  if (file === undefined) return false;
  const { scripts = {} } = JSON.parse(readFileSync(file, 'utf8')) as {
    scripts?: Record<string, string>;
  };
  return ['preinstall', 'install', 'postinstall'].some((name) => name in scripts);
}

/** Differences between the files npm would publish and the intended files. */
export function packageDifferences(): { missing: string[]; unintended: string[] } {
  const packed = new Set(packedFiles());
  const intended = new Set(intendedFiles());
  return {
    missing: [...intended].filter((file) => !packed.has(file)).toSorted(),
    unintended: [...packed].filter((file) => !intended.has(file)).toSorted(),
  };
}

function packedFiles(): string[] {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const json = execFileSync('npm', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // npm 11 and older return a list; npm 12 returns an object by name.
  const [{ files }] = Object.values(JSON.parse(json)) as [{ files: { path: string }[] }];
  // dist/ is checked through its sources, because the build may not have run yet.
  return files.map(({ path }) => path).filter((path) => !path.startsWith('dist/'));
}

/** The program, its docs and what npm always adds. dist/ is built from src/ only (scripts/build.ts). */
function intendedFiles(): string[] {
  return [
    ...['package.json', 'README.md', 'LICENSE', 'bin/errand.js', 'docs/config.schema.json'],
    ...['server.json', '.claude-plugin/marketplace.json'],
    ...['plugin/.mcp.json', 'plugin/monitors/monitors.json'],
    ...['plugin/.claude-plugin/plugin.json', 'plugin/.codex-plugin/plugin.json'],
    ...globSync(['docs/**/*.md', 'docs/images/*', 'plugin/**/*.md'], { cwd: root }),
  ];
}

if (import.meta.main) {
  const scripts = installScripts();
  const { missing, unintended } = packageDifferences();
  const problems = [
    ...scripts.map((name) => `${name} runs code at its installation`),
    ...missing.map((file) => `${file} is missing in the package`),
    ...unintended.map((file) => `${file} is in the package, but not intended`),
  ];
  for (const problem of problems) process.stderr.write(`✗ ${problem}\n`);
  if (problems.length === 0)
    process.stdout.write('✓ no install scripts, exactly the intended files\n');
  process.exitCode = problems.length === 0 ? 0 : 1;
}
