// Server CPU per gigabyte that a job prints: without a reader, and with one SSE follower and output limits, against a Node
// process that reads the same output through a pipe and writes it to a file. A normal follower skips ahead in a flood. Two
// more lines without a bar are for followers that read every byte: as events (base64) and raw.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { cpuMs, report, startServer, tempHome, type BenchServer } from './kit.ts';

const bytes = Number(process.env.BENCH_BYTES ?? 1e9);
const line = 'a line of some length, as a build tool would print it.';
const command = `yes '${line}' | head -c ${bytes}`;
type Follower = 'none' | 'skipping' | 'lossless' | 'bytes';

if (process.argv[2] === 'pipe') await pipeThrough(process.argv[3]!);
else await main();

async function main(): Promise<void> {
  const server = await startServer({ command: { maxOutputBytes: bytes * 2 } });
  // Both sides are measured warm: the pipe side also starts counting after its start.
  for (const follower of ['none', 'skipping', 'lossless', 'bytes'] as const)
    await measure(server, follower, 'seq 1 200000');
  const alone = await measure(server, 'none');
  const followed = await measure(server, 'skipping');
  const whole = await measure(server, 'lossless');
  const bare = await measure(server, 'bytes');
  await server.stop();
  const piped = await measurePipe();
  const perGb = (ms: number) => Number((ms / 1000 / (bytes / 1e9)).toFixed(3));
  const facts = { pipedSeconds: perGb(piped) };
  report('server CPU per GB, one SSE follower', followed / piped, '<= 0.25', {
    seconds: perGb(followed),
    ...facts,
  });
  report('server CPU per GB, no follower', alone / piped, '<= 0.05', {
    seconds: perGb(alone),
    ...facts,
  });
  report('server CPU per GB, an SSE follower that reads every byte', whole / piped, 'none', {
    seconds: perGb(whole),
    ...facts,
  });
  report('server CPU per GB, a follower that reads raw bytes', bare / piped, 'none', {
    seconds: perGb(bare),
    ...facts,
  });
  process.exit(0);
}

async function measure(
  server: BenchServer,
  follower: Follower,
  shellLine = command,
): Promise<number> {
  const before = cpuMs(server.pid);
  const body = { command: shellLine, waitMs: 0 };
  const { id } = await server.post<{ id: string }>('/api/commands', body);
  const following = follower === 'none' ? undefined : followOutput(server, id, follower);
  for (;;) {
    const wait = { ids: [id], timeoutMs: 45_000 };
    const { done } = await server.post<{ done: boolean }>('/api/wait', wait);
    if (done) break;
  }
  await following;
  return cpuMs(server.pid) - before;
}

async function followOutput(server: BenchServer, id: string, how: Follower): Promise<void> {
  const whole = how !== 'skipping';
  const query = whole ? '?raw=true&lossless=true&from=0' : '';
  const headers = { accept: how === 'bytes' ? 'application/octet-stream' : 'text/event-stream' };
  const response = await server.get(`/api/jobs/${id}/output${query}`, headers);
  let seen = 0;
  for await (const chunk of response.body!) seen += (chunk as Uint8Array).length;
  if (seen === 0) throw new Error('the follower received nothing');
  if (whole && seen < 1e6) throw new Error('the follower did not receive everything');
}

async function measurePipe(): Promise<number> {
  const folder = tempHome();
  const args = [import.meta.filename, 'pipe', join(folder, 'out')];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(child, 'exit');
  rmSync(folder, { recursive: true });
  return Number(text);
}

/** The cheapest way to store output from a pipe. */
async function pipeThrough(path: string): Promise<void> {
  const out = openSync(path, 'w');
  const before = process.cpuUsage();
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'ignore'] });
  child.stdout.on('data', (chunk: Buffer) => writeSync(out, chunk));
  await once(child.stdout, 'end');
  const { user, system } = process.cpuUsage(before);
  closeSync(out);
  process.stdout.write(String((user + system) / 1000));
}
