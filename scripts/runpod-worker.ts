// The real `runpod` Python package against this server, which npm cannot bring into the test suite. It needs
// Python 3.10 or newer and what pip brings with the package. Run it by hand:
//   python3 -m venv /tmp/rp && /tmp/rp/bin/pip install runpod
//   PYTHON=/tmp/rp/bin/python node scripts/runpod-worker.ts
// Prints one line per behaviour; exit code 0: all hold, 1: some do not, 2: there is no such package.
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startServer } from '../src/server.ts';
import { client } from '../test/helpers/endpoint.ts';
import { until } from '../test/helpers/until.ts';

const python = process.env.PYTHON ?? 'python3';
const found = spawnSync(python, ['-c', 'import runpod; print(runpod.__version__)'], {
  encoding: 'utf8',
});
if (found.status !== 0) {
  console.error(`${python} has no package runpod: ${found.stderr?.trim().split('\n').at(-1)}`);
  console.error('pip install runpod (Python 3.10 or newer), and name that Python with PYTHON=…');
  process.exit(2);
}
console.log(`runpod ${found.stdout.trim()}`);

const handlers = {
  plain: `
import runpod, time
def handler(job):
    what = job["input"].get("do")
    if what == "raise": raise ValueError("bad")
    if what == "error": return {"error": "refused", "kept": 1}
    if what == "progress": runpod.serverless.progress_update(job, "half")
    if what == "refresh": return {"refresh_worker": True, "kept": 1}
    if what == "block": time.sleep(600)
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
import asyncio, os, runpod
async def handler(job):
    runpod.serverless.progress_update(job, "begun")
    await asyncio.sleep(job["input"].get("seconds", 0))
    return os.getpid()
runpod.serverless.start({"handler": handler})
`,
  many: `
import asyncio, runpod
async def handler(job):
    await asyncio.sleep(1)
    return job["input"]["n"]
runpod.serverless.start({"handler": handler, "concurrency_modifier": lambda _: 4})
`,
};

/** The package's own client, as a program that uses it. */
const clientProgram = `
import json, os, runpod
runpod.api_key = os.environ["RUNPOD_API_KEY"]
plain, stream, slow = (runpod.Endpoint(name) for name in ("plain", "stream", "slow"))
seen = {}
seen["runSync"] = plain.run_sync({"n": 1}, timeout=60)
job = plain.run({"input": {"n": 2}})
seen["output"] = job.output(timeout=60)
seen["status"] = job.status()
seen["stream"] = [chunk for chunk in stream.run({"input": {}}).stream()]
long = slow.run({"input": {"seconds": 600}})
seen["cancel"] = long.cancel(timeout=10)["status"]
seen["health"] = sorted(plain.health(timeout=10))
seen["purge"] = plain.purge_queue(timeout=10)
runpod.api_key = "wrong"
try:
    runpod.Endpoint("plain").run({"input": {}})
except RuntimeError:
    seen["wrongKey"] = "RuntimeError"
print(json.dumps(seen))
`;

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
  // A task that is cancelled before its first step never tells the package that it is over: it must have begun.
  const long = await runs('slow', { seconds: 600 }, 'begun');
  await server.call('POST', `/v2/slow/cancel/${long.id as string}`, '');
  const after = await end('slow', {});
  check('a cancel stops an async handler in place', after.workerId === warm.workerId, after);
  await workerChecks(end);
  await clientChecks();
}

type End = (id: string, input: unknown) => Promise<Record<string, unknown>>;

async function workerChecks(end: End): Promise<void> {
  const refreshed = await end('plain', { do: 'refresh' });
  const next = await end('plain', {});
  const isNew = refreshed.status === 'COMPLETED' && next.workerId !== refreshed.workerId;
  check('refresh_worker gets the next job another worker', isNew, { refreshed, next });
  const blocked = await runs('plain', { do: 'block' });
  await server.call('POST', `/v2/plain/cancel/${blocked.id as string}`, '');
  const free = await end('plain', {});
  check('a cancel replaces a worker that blocks', free.workerId !== blocked.workerId, free);
  const { output: pid } = await end('slow', {});
  const held = await runs('slow', { seconds: 3 });
  process.kill(pid as number, 'SIGKILL');
  const again = await server.ended('slow', held.id as string);
  const once = again.retries === 1 && again.workerId !== held.workerId;
  check('a killed worker: delivered once more, to another', once, again);
  const all = await Promise.all([1, 2, 3, 4].map((n) => end('many', { n })));
  const ids = new Set(all.map(({ workerId }) => workerId));
  check('four at once in one worker', ids.size === 1, all);
}

/** Submits a job and waits until a worker has it, and its handler has reported `progress`. */
async function runs(
  id: string,
  input: unknown,
  progress?: string,
): Promise<Record<string, unknown>> {
  const jobId = await server.run(id, input);
  return until('it runs', async () => {
    const { body } = await server.call('GET', `/v2/${id}/status/${jobId}`);
    const begun = progress === undefined || body.output === progress;
    return body.status === 'IN_PROGRESS' && begun ? body : undefined;
  });
}

async function clientChecks(): Promise<void> {
  const env = {
    ...process.env,
    RUNPOD_ENDPOINT_BASE_URL: `${server.url}/v2`,
    RUNPOD_API_KEY: server.key,
  };
  const { stdout, stderr } = await promisify(execFile)(python, ['-c', clientProgram], {
    env,
    timeout: 120_000,
  }).catch((error: { stdout: string; stderr: string }) => error);
  const seen = (stdout.trim() === '' ? {} : JSON.parse(stdout)) as Record<string, unknown>;
  const want = {
    runSync: { got: { n: 1 } },
    output: { got: { n: 2 } },
    status: 'COMPLETED',
    stream: [{ index: 0 }, { index: 1 }, { index: 2 }],
    cancel: 'CANCELLED',
    health: ['jobs', 'workers'],
    purge: { removed: 0, status: 'completed' },
    wrongKey: 'RuntimeError',
  };
  for (const [name, value] of Object.entries(want)) {
    const holds = JSON.stringify(seen[name]) === JSON.stringify(value);
    check(`the Python client: ${name}`, holds, seen[name] ?? stderr.slice(-200));
  }
}

function check(what: string, holds: boolean, seen: unknown): void {
  console.log(`${holds ? 'ok' : 'NOT OK'}  ${what}${holds ? '' : `: ${JSON.stringify(seen)}`}`);
  if (!holds) process.exitCode = 1;
}
