// Builds dist/. The published package contains JavaScript, because Node does not strip types below node_modules.
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { writeBundle } from '../src/interfaces/dashboard/index.ts';
import { bundleStart } from './bundle.ts';

const root = join(import.meta.dirname, '..');
const dashboardSource = 'src/interfaces/dashboard/browser/';
rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', join(root, 'tsconfig.build.json')], {
  stdio: 'inherit',
});
// A server keeps the source of every loaded module in memory, two bytes per character if one of them is not ASCII.
for (const file of globSync('dist/**/*.js', { cwd: root })) {
  const path = join(root, file);
  const options = { charset: 'ascii', format: 'esm', target: 'node24' } as const;
  writeFileSync(path, transformSync(readFileSync(path, 'utf8'), options).code);
}
// Files that are read at run time and are not TypeScript: models, contract artifacts, plain JavaScript.
for (const file of globSync('src/**/*.{json,js,mjs,cjs,sh,sql,html,css,bin}', { cwd: root })) {
  if (file.startsWith(dashboardSource)) continue;
  cpSync(join(root, file), join(root, file.replace(/^src/, 'dist')));
}
await writeBundle(join(root, 'dist/interfaces/dashboard/assets'));
await bundleStart(join(root, 'dist'));
