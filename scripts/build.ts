// Builds dist: the published package runs JavaScript, because Node strips no types below node_modules.
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', join(root, 'tsconfig.build.json')], {
  stdio: 'inherit',
});
// What is read at run time and is no TypeScript: models, contract artefacts, plain JavaScript.
for (const file of globSync('src/**/*.{json,js,mjs,cjs,sh,sql,html,css,bin}', { cwd: root })) {
  cpSync(join(root, file), join(root, file.replace(/^src/, 'dist')));
}
