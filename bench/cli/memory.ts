// Memory (PSS) of an idle server, compared with pm2's daemon and a bare Node process that waits.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { importPeer, scratchFolder } from '../harness.ts';
import { pssBytes, report, sleep, startServer } from '../command/kit.ts';

const idleMs = Number(process.env.BENCH_IDLE_MS ?? 12_000);
const mb = (pid: number) => Math.round((pssBytes(pid) / 1024 ** 2) * 10) / 10;

const server = await startServer();
const bare = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' });
await importPeer('pm2');
const bin = createRequire(join(import.meta.dirname, '..', 'package.json')).resolve('pm2/bin/pm2');
const env = { ...process.env, PM2_HOME: join(scratchFolder(), 'pm2') };
mkdirSync(env.PM2_HOME);
spawnSync(process.execPath, [bin, 'ping'], { env });
const daemon = Number(readFileSync(join(env.PM2_HOME, 'pm2.pid'), 'utf8'));
try {
  await sleep(idleMs);
  const ours = mb(server.pid);
  report('idle server, MB of PSS', ours / 90, '≤ 1 (90 MB)', {
    ours,
    pm2: mb(daemon),
    node: mb(bare.pid!),
  });
  if (ours > 90) process.exitCode = 1;
} finally {
  spawnSync(process.execPath, [bin, 'kill'], { env });
  bare.kill();
  await server.stop();
}
