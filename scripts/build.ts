// Builds dist/. The published package contains JavaScript, because Node does not strip types below node_modules.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { writeBundle } from '../src/interfaces/dashboard/index.ts';
import { bundle } from './bundle.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
rmSync(dist, { recursive: true, force: true });
await bundle(join(root, 'src'), dist);
await writeBundle(join(dist, 'interfaces', 'dashboard', 'assets'));
