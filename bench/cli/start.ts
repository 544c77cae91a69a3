// The cost of a command: CPU time of `errand list` against a running server, from the clone and from the built package,
// compared with `node -e 0` and `pm2 list`. CPU time, because it hardly depends on other load.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { compare, importPeer, scratchFolder, type Side } from '../harness.ts';
import { startServer } from '../command/kit.ts';

const root = join(import.meta.dirname, '..', '..');
const rounds = Number(process.env.BENCH_ROUNDS ?? 11);
const calls = 5;
const server = await startServer();
const env = { ...process.env, ERRAND_HOME: server.home };

/** CPU ms per call. The kernel counts children that were waited for. */
function side(name: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): Side {
  const script = `const {spawnSync}=require('child_process');const a=JSON.parse(process.argv[1]);
for(let i=0;i<${calls};i++){const r=spawnSync(process.execPath,a);if(r.status)throw new Error(String(r.stderr))}
const s=require('fs').readFileSync('/proc/self/stat','latin1').split(') ')[1].split(' ');
console.log((Number(s[13])+Number(s[14]))*10/${calls})`;
  return {
    name,
    round: async () => {
      const { stdout, stderr } = spawnSync(process.execPath, ['-e', script, JSON.stringify(args)], {
        env: { ...env, ...more },
        encoding: 'utf8',
      });
      if (stdout.trim() === '') throw new Error(stderr);
      return Number(stdout);
    },
  };
}

/** The installed package: JavaScript in dist, no TypeScript. */
function packed(): string {
  const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.ts')], {
    stdio: 'inherit',
  });
  if (built.status !== 0) throw new Error('the package could not be built');
  const folder = scratchFolder();
  for (const part of ['bin', 'dist', 'package.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'bin', 'errand.js');
}

async function pm2(): Promise<Side> {
  await importPeer('pm2');
  const require = createRequire(join(root, 'bench', 'package.json'));
  const bin = require.resolve('pm2/bin/pm2');
  const home = join(scratchFolder(), 'pm2');
  mkdirSync(home);
  const own = { PM2_HOME: home };
  const listed = side('pm2 list', [bin, 'list'], own);
  return {
    ...listed,
    close: async () => {
      if (existsSync(home)) spawnSync(process.execPath, [bin, 'kill'], { env: { ...env, ...own } });
    },
  };
}

const node = async () => side('node -e 0', ['-e', '0']);
const peers = (atMost: number) => [
  { name: 'node -e 0', bar: { atMost }, open: node },
  { name: 'pm2 list', bar: { atMost: 1 }, open: pm2 },
];
try {
  const unit = ' ms CPU';
  // 70 ms where node takes 28, and 100 ms in a clone.
  const installed = packed();
  await compare({
    name: 'errand list, installed package',
    unit,
    rounds,
    ours: async () => side('errand list', [installed, 'list']),
    peers: peers(2.5),
  });
  await compare({
    name: 'errand list, clone',
    unit,
    rounds,
    ours: async () => side('errand list', [join(root, 'bin', 'errand.js'), 'list']),
    peers: peers(3.6),
  });
} finally {
  await server.stop();
}
