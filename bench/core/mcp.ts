// The stdio bridge against a bare hello server on the same SDK: calls per second, and the time to the first tools/list.
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

/** The client: handwritten JSON lines with this concurrency, or the official client that agents use. */
interface ClientOptions {
  start: (args: string[], env: NodeJS.ProcessEnv) => Promise<StdioServer>;
  concurrency: number;
}

async function measureCalls(
  args: string[],
  tool: string,
  input: object,
  { start, concurrency }: ClientOptions,
): Promise<Side> {
  const bridge = await start(args, env);
  const call = () => bridge.request('tools/call', { name: tool, arguments: input });
  const result = await call();
  if (result.isError || result.error) throw new Error(`${tool}: ${JSON.stringify(result)}`);
  return {
    name: tool,
    operations: calls,
    servicePids: tool === 'hello' ? [bridge.pid] : [bridge.pid, server.pid!],
    round: () => rate(calls, concurrency, call),
    close: bridge.close,
  };
}

/** Milliseconds from the process start to its tool list. */
function firstList(args: string[]): Side {
  return {
    name: 'tools/list',
    round: async () => {
      const start = performance.now();
      const bridge = await startStdio(args, env);
      await bridge.request('tools/list', {});
      const ms = performance.now() - start;
      await bridge.close();
      return ms;
    },
  };
}

async function someJob(): Promise<string> {
  const bridge = await startStdio([bin, 'mcp'], env);
  const input = { command: 'true', waitMs: 10_000 };
  const result = await bridge.request('tools/call', { name: 'run_command', arguments: input });
  await bridge.close();
  return (result.structuredContent as { id: string }).id;
}

try {
  const input = { id: await someJob() };
  const ways: [string, ClientOptions][] = [
    ['1 call at a time, official client', { start: startOfficial, concurrency: 1 }],
    ['8 concurrent calls', { start: startStdio, concurrency: 8 }],
    // A client without its own cost: the rest is mostly process wake-ups, and ours has one process more.
    ['1 call at a time', { start: startStdio, concurrency: 1 }],
  ];
  for (const [name, asking] of ways) {
    await compare({
      name: `get_job over stdio, ${name}`,
      unit: '/s',
      rounds: 5,
      ours: () => measureCalls([bin, 'mcp'], 'get_job', input, asking),
      peers: [
        {
          name: 'a bare hello tool',
          bar: { atLeast: 0.5 },
          open: () => measureCalls(hello, 'hello', { name: 'x' }, asking),
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
