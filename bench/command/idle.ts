// A thousand idle jobs: memory (PSS) of server, launcher, wrappers and guard without the payload, against one Node process
// per job, and their share of a core.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cpuMs, processes, pssBytes, report, sleep, startServer } from './kit.ts';

const jobs = Number(process.env.BENCH_JOBS ?? 1000);
const watchMs = Number(process.env.BENCH_WATCH_MS ?? 30_000);
const nodesMeasured = 10;

const server = await startServer({ command: { maxJobs: jobs } });
const ids: string[] = [];
for (let n = 0; n < jobs; n += 20) {
  const batch = Array.from({ length: Math.min(20, jobs - n) }, () =>
    server.post<{ id: string }>('/api/commands', { argv: ['sleep', '3600'], waitMs: 0 }),
  );
  ids.push(...(await Promise.all(batch)).map(({ id }) => id));
}
const mine = () => {
  const all = processes();
  const wrappers = all.filter((one) => one.command.includes(`errand-job ${server.home}`));
  const guard = JSON.parse(readFileSync(join(server.home, 'command/guard.json'), 'utf8')) as {
    pid: number;
  };
  const launchers = all.filter(
    (one) => one.ppid === server.pid && /launcher-main/.test(one.command),
  );
  const others = [server.pid, guard.pid, ...launchers.map(({ pid }) => pid)];
  return { wrappers: wrappers.map(({ pid }) => pid), others };
};
for (let tries = 0; mine().wrappers.length < jobs && tries < 600; tries++) await sleep(200);
await sleep(5000);
const { wrappers, others } = mine();
const pids = [...wrappers, ...others];
const cpuBefore = pids.reduce((sum, pid) => sum + cpuMs(pid), 0);
await sleep(watchMs);
const cpu = pids.reduce((sum, pid) => sum + cpuMs(pid), 0) - cpuBefore;
const memory = pids.reduce((sum, pid) => sum + pssBytes(pid), 0);

const nodes = Array.from({ length: nodesMeasured }, () =>
  spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' }),
);
await sleep(3000);
const perNode = nodes.reduce((sum, { pid }) => sum + pssBytes(pid!), 0) / nodesMeasured;
for (const node of nodes) node.kill();

report(`${jobs} idle jobs, memory`, memory / (perNode * jobs), '<= 0.05', {
  running: wrappers.length,
  megabytes: Math.round(memory / 2 ** 20),
  serverMegabytes: Math.round(pssBytes(server.pid) / 2 ** 20),
  perNodeMegabytes: Number((perNode / 2 ** 20).toFixed(1)),
});
report(`${jobs} idle jobs, share of a core`, cpu / watchMs, '<= 0.02', { cpuMs: cpu, watchMs });
for (let n = 0; n < ids.length; n += 20) {
  const batch = ids.slice(n, n + 20);
  await Promise.all(batch.map((id) => server.post(`/api/jobs/${id}/cancel`, {})));
}
await server.stop();
process.exit(0);
