// Tests the real `runpod` Python package, in one or more versions, against this server. npm cannot install it for the test
// suite, so run it manually with a Python (3.10 or newer) for each version:
//   python3 -m venv /tmp/rp && /tmp/rp/bin/pip install runpod
//   python3 -m venv /tmp/rp-1.8 && /tmp/rp-1.8/bin/pip install runpod==1.8.1
//   PYTHON=/tmp/rp/bin/python,/tmp/rp-1.8/bin/python node scripts/runpod-worker.ts
// PYTHON may also contain scripts that start a Python with their own PYTHONPATH.
// Prints one line per check and, if a worker cannot start, its log. Exit code 0: all checks pass, 1: some fail, 2: a Python
// does not have the package.
import { execFile, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startServer } from '../src/server.ts';
import { client } from '../test/helpers/endpoint.ts';
import { until } from '../test/helpers/until.ts';

type Body = Record<string, unknown>;

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
    if what == "bytes": return {"raw": b"not JSON"}
    return {"got": job["input"]}
runpod.serverless.start({"handler": handler})
`,
  stream: `
import asyncio, runpod
async def handler(job):
    for index in range(job["input"].get("count", 3)):
        await asyncio.sleep(job["input"].get("seconds", 0))
        yield {"index": index}
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

/** A program that uses the client of the package. */
const clientProgram = `
import json, os, runpod
runpod.api_key = os.environ["RUNPOD_API_KEY"]
# Versions before 1.7 do not read the variable.
runpod.endpoint_url_base = os.environ["RUNPOD_ENDPOINT_BASE_URL"]
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

/** The package version, and whether its workers ask which jobs to stop (1.10 and newer do). */
const probeProgram = `
import json, os, runpod
root = os.path.dirname(runpod.__file__)
texts = [open(os.path.join(folder, name), encoding="utf8").read()
         for folder, _, names in os.walk(root) for name in names if name.endswith(".py")]
print(json.dumps({"version": runpod.__version__, "stops": any("job-stop" in text for text in texts)}))
`;

interface Package {
  python: string;
  version: string;
  stops: boolean;
}

const startTimeoutMs = 120_000;
/** How long a worker without a server is observed. */
const observedMs = 10_000;
/** An idle worker must stop within this time, without SIGKILL. */
const maxStopMs = 2000;
const maxOutageShare = 0.01;
const maxLogBytesPerMinute = 1_000_000;
let server: ReturnType<typeof client>;

for (const python of (process.env.PYTHON ?? 'python3').split(','))
  await checkPackage(probe(python));

function probe(python: string): Package {
  const found = spawnSync(python, ['-c', probeProgram], { encoding: 'utf8' });
  if (found.status === 0)
    return { python, ...(JSON.parse(found.stdout) as Omit<Package, 'python'>) };
  const reason = found.stderr?.trim().split('\n').at(-1) ?? found.error?.message;
  console.error(`${python} has no package runpod: ${reason}`);
  console.error(
    'runpod is not installed. Run pip install runpod (Python 3.10 or newer) and pass that Python with PYTHON=….',
  );
  process.exit(2);
}

async function checkPackage(tested: Package): Promise<void> {
  console.log(`runpod ${tested.version} (${tested.python})`);
  const folder = mkdtempSync(join(tmpdir(), 'errand-runpod-'));
  const home = join(folder, 'home');
  mkdirSync(home);
  let running = await startServer({ home, port: 0 });
  let isAway = false;
  const stop = async () => {
    isAway = true;
    await running.stop();
  };
  const back = async () => {
    running = await startServer({ home, port: 0 });
    server = client(running.url!, running.key);
    isAway = false;
  };
  server = client(running.url!, running.key);
  try {
    for (const [id, text] of Object.entries(handlers)) {
      const file = join(folder, `${id}.py`);
      writeFileSync(file, text);
      const recipe = { worker: [tested.python, file] };
      await server.save(id, { recipe, maxWorkers: 1, idleTimeoutMs: 600_000 });
    }
    if (await checkStart()) {
      await resultChecks(tested);
      await workerChecks();
      await clientChecks(tested);
      await stopChecks();
      await outageChecks(home, stop, back);
    }
  } catch (error) {
    check('the checks run to their end', false, (error as Error).message);
  } finally {
    if (isAway) await back();
    for (const id of Object.keys(handlers)) await server.call('DELETE', `/api/endpoints/${id}`);
    await until('the workers have ended', async () => liveWorkers(home) === 0, startTimeoutMs);
    await running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function liveWorkers(home: string): number {
  return readdirSync(join(home, 'endpoints/relays')).length;
}

/** Runs the first job. Prints the worker log if it fails. */
async function checkStart(): Promise<boolean> {
  try {
    const job = await end('plain', {});
    check('an empty input is delivered', job.status === 'COMPLETED', job);
    return true;
  } catch (error) {
    check('a worker of the package starts', false, (error as Error).message);
    const { body } = await server.call('GET', '/api/endpoints/plain/log?tail=200');
    for (const { ts, line } of (body.lines ?? []) as { ts: string; line: string }[])
      console.log(`    ${ts} ${line}`);
    return false;
  }
}

async function end(id: string, input: unknown): Promise<Body> {
  return ended(id, await server.run(id, input));
}

/** Waits for the end of the job. Python starts slowly on a loaded machine. */
function ended(id: string, jobId: string): Promise<Body> {
  return until(
    `${jobId} is over`,
    async () => {
      const { body } = await server.call('GET', `/v2/${id}/status/${jobId}`);
      return body.status === 'IN_QUEUE' || body.status === 'IN_PROGRESS' ? undefined : body;
    },
    startTimeoutMs,
  );
}

async function resultChecks({ stops }: Package): Promise<void> {
  const raised = await end('plain', { do: 'raise' });
  const error = raised.status === 'FAILED' && String(raised.error).includes('ValueError');
  check('an exception is FAILED with its JSON', error, raised);
  const refused = await end('plain', { do: 'error' });
  check('a returned error keeps the output', refused.error === 'refused', refused);
  const progress = await end('plain', { do: 'progress' });
  check('progress never replaces the result', typeof progress.output === 'object', progress);
  const startedAt = Date.now();
  const bytes = await end('plain', { do: 'bytes' });
  const isQuick = bytes.status === 'FAILED' && Date.now() - startedAt < 10_000;
  check("a result that cannot be posted fails with the worker's error", isQuick, bytes);
  const streamed = await server.run('stream', {});
  await ended('stream', streamed);
  check('a generator streams', (await chunks(streamed)).length === 3, await chunks(streamed));
  const warm = await end('slow', {});
  // The task must have started: one that is cancelled before its first step never reports its end to the package.
  const long = await runs('slow', { seconds: 600 }, 'begun');
  await server.call('POST', `/v2/slow/cancel/${long.id as string}`, '');
  const after = await end('slow', {});
  const isSame = after.workerId === warm.workerId;
  check(`a cancel ${stops ? 'stops' : 'replaces'} an async handler`, isSame === stops, after);
}

async function workerChecks(): Promise<void> {
  const refreshed = await end('plain', { do: 'refresh' });
  const next = await end('plain', {});
  const isNew = refreshed.status === 'COMPLETED' && next.workerId !== refreshed.workerId;
  check('after refresh_worker another worker runs the next job', isNew, { refreshed, next });
  const blocked = await runs('plain', { do: 'block' });
  await server.call('POST', `/v2/plain/cancel/${blocked.id as string}`, '');
  const free = await end('plain', {});
  check('a cancel replaces a worker that blocks', free.workerId !== blocked.workerId, free);
  const { output: pid } = await end('slow', {});
  const held = await runs('slow', { seconds: 3 });
  process.kill(pid as number, 'SIGKILL');
  const again = await ended('slow', held.id as string);
  const once = again.retries === 1 && again.workerId !== held.workerId;
  check('the job of a killed worker is delivered once more, to another worker', once, again);
  const all = await Promise.all([1, 2, 3, 4].map((n) => end('many', { n })));
  const ids = new Set(all.map(({ workerId }) => workerId));
  check('one worker runs four jobs concurrently', ids.size === 1, all);
}

/** The server is unavailable while one job ends and another streams. */
async function outageChecks(
  home: string,
  stop: () => Promise<void>,
  back: () => Promise<void>,
): Promise<void> {
  const { output: pid } = await end('slow', {});
  const waited = await runs('slow', { seconds: 10 }, 'begun');
  const streamed = await runs('stream', { count: 40, seconds: 0.3 });
  const log = join(home, 'endpoints/logs/slow', `${waited.workerId as string}.log`);
  await stop();
  const outbox = join(home, 'endpoints/relays', waited.workerId as string, 'outbox');
  await until('its result is stored', () => statSync(outbox).size > 0, startTimeoutMs);
  const isSuspended = (each: number) => isRelay(each) || statOf(each)[0] === 'T';
  const processes = await until('the worker is suspended', () => {
    const found = processesOf(waited.workerId as string);
    return found.every(isSuspended) ? found : undefined;
  });
  const cpu = () => processes.reduce((sum, each) => sum + cpuMs(each), 0);
  const before = { cpu: cpu(), bytes: statSync(log).size, at: Date.now() };
  await until('the outage is long enough', () => Date.now() - before.at > observedMs);
  const tookMs = Date.now() - before.at;
  const share = (cpu() - before.cpu) / tookMs;
  const bytesPerMinute = ((statSync(log).size - before.bytes) * 60_000) / tookMs;
  const figures = `${(share * 100).toFixed(2)} % of a core, ${Math.round(bytesPerMinute)} B of log per minute`;
  const isQuiet = share < maxOutageShare && bytesPerMinute < maxLogBytesPerMinute;
  check(`a worker without a server and its relay are quiet: ${figures}`, isQuiet, {});
  await back();
  const job = await ended('slow', waited.id as string);
  const isKept = job.output === pid && job.retries === undefined;
  check('a result from an outage is delivered, and its job does not run again', isKept, job);
  const stream = await ended('stream', streamed.id as string);
  const seen = await chunks(streamed.id as string);
  const isWhole = seen.join() === Array.from({ length: 40 }, (_, i) => i).join();
  check('a stream across an outage contains every chunk once', isWhole && !stream.retries, seen);
}

/** A changed endpoint replaces its idle worker. */
async function stopChecks(): Promise<void> {
  const { workerId } = await end('slow', {});
  await server.save('slow', { env: { CHANGED: '1' } });
  const path = `/api/endpoints/slow/log?workerId=${workerId as string}&source=system`;
  const lines = await until('the old worker has ended', async () => {
    const { body } = await server.call('GET', path);
    const found = body.lines as { ts: string; line: string }[];
    return found.at(-1)?.line.startsWith('worker ended') ? found : undefined;
  });
  const stopped = lines.find(({ line }) => line.startsWith('stop worker'))!;
  const tookMs = Date.parse(lines.at(-1)!.ts) - Date.parse(stopped.ts);
  const isGentle = !lines.at(-1)!.line.includes('SIGKILL') && tookMs <= maxStopMs;
  check(`an idle worker stops without SIGKILL, in ${tookMs} ms`, isGentle, lines);
}

async function chunks(id: string): Promise<number[]> {
  const { body } = await server.call('GET', `/api/jobs/${id}/stream?limit=1000`);
  return (body.chunks as { output: { index: number } }[]).map(({ output }) => output.index);
}

/** The relay, the worker and what the worker started. */
function processesOf(workerId: string): number[] {
  const mark = `ERRAND_WORKER_ID=${workerId}\0`;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => readProcFile(pid, 'environ').includes(mark));
}

function isRelay(pid: number): boolean {
  return readProcFile(pid, 'cmdline').includes('relay-main');
}

function readProcFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return ''; // it exited in the meantime
  }
}

/** Fields of /proc/<pid>/stat from the state on. */
function statOf(pid: number): string[] {
  const stat = readProcFile(pid, 'stat');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** User and system time of a process, in clock ticks of 10 ms. */
function cpuMs(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Submits a job and waits until a worker has it, and its handler has reported `progress`. */
async function runs(id: string, input: unknown, progress?: string): Promise<Body> {
  const jobId = await server.run(id, input);
  return until(
    'it runs',
    async () => {
      const { body } = await server.call('GET', `/v2/${id}/status/${jobId}`);
      const begun = progress === undefined || body.output === progress;
      return body.status === 'IN_PROGRESS' && begun ? body : undefined;
    },
    startTimeoutMs,
  );
}

async function clientChecks({ python }: Package): Promise<void> {
  const env = {
    ...process.env,
    RUNPOD_ENDPOINT_BASE_URL: `${server.url}/v2`,
    RUNPOD_API_KEY: server.key,
  };
  const { stdout, stderr } = await promisify(execFile)(python, ['-c', clientProgram], {
    env,
    timeout: 120_000,
  }).catch((error: { stdout: string; stderr: string }) => error);
  const seen = (stdout.trim() === '' ? {} : JSON.parse(stdout)) as Body;
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
