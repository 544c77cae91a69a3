// How many calls and characters a model needs from the start of a failing job to its error lines: for a job of 30 s and for
// a suite of 40 minutes. The suite runs on scaled time: a minute takes SCALE_MS, and waits are shortened accordingly.
import { join } from 'node:path';
import { scratchFolder } from '../harness.ts';
import { startStdio } from './stdio.ts';
import type { ToolResult } from './ten-calls.ts';

const scaledMs = Number(process.env.SCALE_MS ?? 3000);
const bin = join(import.meta.dirname, '../../bin/errand.js');
const env = { ...process.env, ERRAND_HOME: join(scratchFolder(), 'home') };
const bridge = await startStdio([bin, 'mcp'], env);

interface Response {
  id?: string;
  done?: boolean;
}

async function follow(
  title: string,
  minutes: number,
  waitMinutes: number,
  minuteMs = scaledMs,
): Promise<void> {
  let calls = 0;
  let structure = 0;
  let text = 0;
  const call = async (name: string, input: object): Promise<Response> => {
    const params = { name, arguments: input };
    const result = (await bridge.request('tools/call', params)) as unknown as ToolResult;
    calls += 1;
    structure += JSON.stringify(result.structuredContent).length;
    text += result.content.map((part) => part.text ?? '').join('\n').length;
    last = JSON.stringify(result.structuredContent);
    return result.structuredContent as Response;
  };
  let last = '';
  const suite = [
    'for i in $(seq 400); do echo "PASS tests/mod$i.test.ts ($i ms)"; done',
    `sleep ${(minutes * minuteMs) / 1000}`,
    `printf '%s\\n' 'FAIL tests/cart.test.ts' '● cart › adds tax' 'Expected: 21' 'Received: 20'`,
    'echo "Tests: 1 failed, 400 passed"; exit 1',
  ].join('; ');
  const waitMs = waitMinutes * minuteMs;
  const { id } = await call('run_command', { command: suite, waitMs });
  while (!last.includes('"exitCode":1')) await call('wait_for_jobs', { ids: [id], waitMs });
  if (!last.includes('Expected: 21')) throw new Error(`the error lines are missing: ${last}`);
  console.log(`${title}: ${calls} calls, structure ${structure}, text ${text} characters`);
}

try {
  await follow('failing 30 s job', 0.5, 45 / 60, 60_000);
  await follow('failing 40-minute suite, client with progress (waits of 5 min)', 40, 5);
  await follow('failing 40-minute suite, client without (waits of 50 s)', 40, 50 / 60);
} finally {
  await bridge.close();
}
