// The real `runpod` Python package against this server, which npm cannot bring into the test suite. Run it by hand:
//   python3 -m venv /tmp/rp && /tmp/rp/bin/pip install runpod
//   PYTHON=/tmp/rp/bin/python node scripts/runpod-worker.ts
// Prints one line per behaviour; exit code 0: all hold, 1: some do not, 2: there is no such package.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../src/server.ts';
import { client } from '../test/helpers/endpoint.ts';
import { until } from '../test/helpers/until.ts';

const python = process.env.PYTHON ?? 'python3';
const found = spawnSync(python, ['-c', 'import runpod; print(runpod.__version__)'], {
  encoding: 'utf8',
});
if (found.status !== 0) {
  console.error(`${python} has no package runpod: ${found.stderr?.trim().split('\n').at(-1)}`);
  console.error('pip install runpod, and name that Python with PYTHON=…');
  process.exit(2);
}
console.log(`runpod ${found.stdout.trim()}`);

const handlers = {
  plain: `
import runpod
def handler(job):
    what = job["input"].get("do")
    if what == "raise": raise ValueError("bad")
    if what == "error": return {"error": "refused", "kept": 1}
    if what == "progress": runpod.serverless.progress_update(job, "half")
    return {"got": job["input"]}
runpod.serverless.start({"handler": handler})
`,
  stream: `
import runpod
def handler(job):
    for index in range(3): yield {"index": index}
runpod.serverless.start({"handler": handler, "return_aggregate_stream": True})
`,
  slow: `
import asyncio, runpod
async def handler(job):
    await asyncio.sleep(job["input"].get("seconds", 0))
    return "slept"
runpod.serverless.start({"handler": handler})
`,
};

const folder = mkdtempSync(join(tmpdir(), 'errand-runpod-'));
mkdirSync(join(folder, 'home'));
const running = await startServer({ home: join(folder, 'home'), port: 0 });
const server = client(running.url!, running.key);
try {
  for (const [id, text] of Object.entries(handlers)) {
    const file = join(folder, `${id}.py`);
    writeFileSync(file, text);
    const recipe = { worker: [python, file], cwd: folder };
    await server.save(id, { recipe, workersMax: 1, idleTimeoutMs: 600_000 });
  }
  await checks();
} finally {
  for (const id of Object.keys(handlers)) await server.call('DELETE', `/api/endpoints/${id}`);
  await running.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function checks(): Promise<void> {
  const end = async (id: string, input: unknown) => server.ended(id, await server.run(id, input));
  const plain = await end('plain', {});
  check('an empty input arrives', plain.status === 'COMPLETED', plain);
  const raised = await end('plain', { do: 'raise' });
  const error = raised.status === 'FAILED' && String(raised.error).includes('ValueError');
  check('an exception is FAILED with its JSON', error, raised);
  const refused = await end('plain', { do: 'error' });
  check('a returned error keeps the output', refused.error === 'refused', refused);
  const progress = await end('plain', { do: 'progress' });
  check('progress never replaces the result', typeof progress.output === 'object', progress);
  const streamed = await server.run('stream', {});
  await server.ended('stream', streamed);
  const { body } = await server.call('GET', `/v2/stream/stream/${streamed}`);
  check('a generator streams', (body.stream as unknown[]).length === 3, body);
  const warm = await end('slow', {});
  const long = await server.run('slow', { seconds: 600 });
  await until('it runs', async () => {
    const now = await server.call('GET', `/v2/slow/status/${long}`);
    return now.body.status === 'IN_PROGRESS';
  });
  await server.call('POST', `/v2/slow/cancel/${long}`, '');
  const after = await end('slow', {});
  check('a cancel stops an async handler in place', after.workerId === warm.workerId, after);
}

function check(what: string, holds: boolean, seen: unknown): void {
  console.log(`${holds ? 'ok' : 'NOT OK'}  ${what}${holds ? '' : `: ${JSON.stringify(seen)}`}`);
  if (!holds) process.exitCode = 1;
}
