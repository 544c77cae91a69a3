// The stdio front against a bare hello server on the same SDK: calls per second, and the time to the first tools/list.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { compare, rate, scratchFolder, type Side } from '../harness.ts';
import { startOfficial, startStdio, type StdioServer } from './stdio.ts';

const bin = join(import.meta.dirname, '../../bin/errand.js');
const hello = [join(import.meta.dirname, 'hello.ts')];
const env = { ...process.env, ERRAND_HOME: join(scratchFolder(), 'home') };
const calls = 1000;

const server = spawn(process.execPath, [bin, 'serve', '--json', '--port', '0'], {
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
});
await once(createInterface({ input: server.stdout }), 'line');

/** Who asks: JSON lines by hand, so many at once, or the client that agents have. */
interface Asking {
  start: (args: string[], env: NodeJS.ProcessEnv) => Promise<StdioServer>;
  atOnce: number;
}

async function callsOf(
  args: string[],
  tool: string,
  input: object,
  { start, atOnce }: Asking,
): Promise<Side> {
  const front = await start(args, env);
  const call = () => front.request('tools/call', { name: tool, arguments: input });
  const answer = await call();
  if (answer.isError || answer.error) throw new Error(`${tool}: ${JSON.stringify(answer)}`);
  return {
    name: tool,
    operations: calls,
    servicePids: tool === 'hello' ? [front.pid] : [front.pid, server.pid!],
    round: () => rate(calls, atOnce, call),
    close: front.close,
  };
}

/** Milliseconds from the start of the process to its list of tools. */
function firstList(args: string[]): Side {
  return {
    name: 'tools/list',
    round: async () => {
      const start = performance.now();
      const front = await startStdio(args, env);
      await front.request('tools/list', {});
      const ms = performance.now() - start;
      await front.close();
      return ms;
    },
  };
}

async function someJob(): Promise<string> {
  const front = await startStdio([bin, 'mcp'], env);
  const input = { command: 'true', waitMs: 10_000 };
  const answer = await front.request('tools/call', { name: 'run_command', arguments: input });
  await front.close();
  const { id, jobId } = answer.structuredContent as { id?: string; jobId?: string };
  return (id ?? jobId)!;
}

try {
  const input = { id: await someJob() };
  const ways: [string, Asking][] = [
    ['1 at once by the official client', { start: startOfficial, atOnce: 1 }],
    ['8 at once', { start: startStdio, atOnce: 8 }],
    // A client that costs nothing: what is left is mostly the waking of processes, ours being one more.
    ['1 at once', { start: startStdio, atOnce: 1 }],
  ];
  for (const [name, asking] of ways) {
    await compare({
      name: `get_job over stdio, ${name}`,
      unit: '/s',
      rounds: 5,
      ours: () => callsOf([bin, 'mcp'], 'get_job', input, asking),
      peers: [
        {
          name: 'a bare hello tool',
          bar: { atLeast: 0.5 },
          open: () => callsOf(hello, 'hello', { name: 'x' }, asking),
        },
      ],
    });
  }
  await compare({
    name: 'first tools/list with a running server',
    unit: ' ms',
    rounds: 9,
    ours: async () => firstList([bin, 'mcp']),
    peers: [
      { name: 'a bare hello server', bar: { atMost: 2 }, open: async () => firstList(hello) },
    ],
  });
} finally {
  server.kill('SIGTERM');
  await once(server, 'exit');
}
