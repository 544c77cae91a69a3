// `npm test`: the checks, then every test file in a process of its own, several at once.
// Nothing may hang it: a file has a time limit and is killed with all it started, and the output of
// every process goes to a file, so that a stray process cannot keep a pipe open.
// Usage: node scripts/test.ts [--only check|files] [path part …]
import { spawn } from 'node:child_process';
import {
  globSync,
  mkdtempSync,
  openSync,
  closeSync,
  readFileSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const root = join(import.meta.dirname, '..');
const deep = process.env.ERRAND_TEST_DEEP === '1';
const fileLimitMs = deep ? 3_600_000 : 240_000;
const runLimitMs = deep ? 7_200_000 : 1_200_000;
const filesAtOnce = Number(process.env.ERRAND_TEST_JOBS ?? Math.max(3, availableParallelism() + 2));
/** More failed files than this are a broken tree, not an unsteady machine, and are not tried again. */
const secondTriesMax = 3;

const marker = `errand-test-${process.pid}-${Date.now()}`;
const scratch = mkdtempSync(join(tmpdir(), 'errand-test-'));
const bin = (name: string) => join(root, 'node_modules', '.bin', name);

interface Run {
  name: string;
  code: number | null;
  ms: number;
  output: string;
  note?: string;
}

const args = process.argv.slice(2);
const only = args.includes('--only') ? args[args.indexOf('--only') + 1] : undefined;
const parts = args.filter((arg, i) => !arg.startsWith('--') && args[i - 1] !== '--only');

const hardStop = setTimeout(() => {
  console.log(`the run did not end within ${runLimitMs / 60_000} min and was stopped`);
  finish(1);
}, runLimitMs);
process.on('SIGTERM', () => finish(143));
process.on('SIGINT', () => finish(130));

let failed = false;
if (only !== 'files' && parts.length === 0) failed = !(await runChecks());
if (only !== 'check') failed = !(await runFiles()) || failed;
finish(failed ? 1 : 0);

async function runChecks(): Promise<boolean> {
  const checks: [string, string[]][] = [
    ['types', [bin('tsc'), '--noEmit', '-p', root]],
    [
      'lint',
      [bin('oxlint'), '--type-aware', '--deny-warnings', 'src', 'test', 'scripts', 'bench', 'bin'],
    ],
    ['format', [bin('oxfmt'), '--check', '.']],
    ['docs', [process.execPath, join(root, 'scripts/docs.ts'), '--check']],
  ];
  let ok = true;
  for (const [name, command] of checks) {
    const run = await runProcess(name, command);
    report(run);
    if (run.code !== 0) ok = false;
  }
  return ok;
}

async function runFiles(): Promise<boolean> {
  const files = globSync('test/**/*.test.ts', {
    cwd: root,
    exclude: (f) => f.includes('node_modules'),
  })
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
    .sort((a, b) => weight(b) - weight(a) || a.localeCompare(b));
  if (files.length === 0) {
    console.log('no test file matches');
    return false;
  }
  const runs: Run[] = [];
  const waiting = [...files];
  const worker = async () => {
    for (let file = waiting.shift(); file; file = waiting.shift()) {
      const run = await runFile(file);
      report(run);
      runs.push(run);
    }
  };
  await Promise.all(Array.from({ length: filesAtOnce }, worker));
  const unsteady = runs.filter((run) => run.code !== 0);
  if (unsteady.length > 0 && unsteady.length <= secondTriesMax && parts.length === 0) {
    for (const run of unsteady) {
      const again = await runFile(run.name);
      report({
        ...again,
        note: again.code === 0 ? 'NOT STEADY: passed when run alone' : 'failed again, alone',
      });
      if (again.code === 0) runs[runs.indexOf(run)] = again;
    }
  }
  const counts = { tests: 0, pass: 0, fail: 0, skipped: 0 };
  for (const run of runs)
    for (const key of Object.keys(counts) as (keyof typeof counts)[])
      counts[key] += count(run.output, key);
  const broken = runs.filter((run) => run.code !== 0);
  for (const run of broken) console.log(`failed: ${run.name}`);
  console.log(`${runs.length} files, ${counts.tests} tests`);
  console.log(
    `${counts.pass} passed, ${Math.max(counts.fail, broken.length)} failed, ${counts.skipped} skipped`,
  );
  return broken.length === 0;
}

/** Long files first, so that the last minutes are not one file alone. */
function weight(file: string): number {
  return (
    ['/deep/', '/e2e/', '/cluster/', '/dialects/', '/web/', 'simulation'].findIndex((part) =>
      file.includes(part),
    ) + 1
  );
}

function runFile(file: string): Promise<Run> {
  const testArgs = [
    '--test',
    '--test-reporter=spec',
    `--test-timeout=${fileLimitMs / 2}`,
    '--test-force-exit',
  ];
  return runProcess(file, [process.execPath, ...testArgs, join(root, file)]);
}

function runProcess(name: string, [command, ...commandArgs]: string[]): Promise<Run> {
  const path = join(scratch, `${name.replaceAll(/[^\w.]/g, '-')}-${Date.now()}.log`);
  const out = openSync(path, 'w');
  const start = Date.now();
  return new Promise((resolve) => {
    const child = spawn(command!, commandArgs, {
      cwd: root,
      detached: true,
      stdio: ['ignore', out, out],
      env: {
        ...process.env,
        NODE_ENV: 'test',
        // Most files load most of the tree: it is compiled once.
        NODE_COMPILE_CACHE: join(scratch, 'compiled'),
        ERRAND_TEST_RUN: marker,
        FORCE_COLOR: '0',
      },
    });
    closeSync(out);
    let note: string | undefined;
    const limit = setTimeout(() => {
      note = `killed after ${fileLimitMs / 1000} s`;
      kill(-child.pid!);
    }, fileLimitMs);
    const done = (code: number | null) => {
      clearTimeout(limit);
      const run: Run = { name, code, ms: Date.now() - start, output: readFileSync(path, 'utf8') };
      resolve(note ? { ...run, code: code ?? 1, note } : run);
    };
    child.on('error', () => done(1));
    child.on('exit', (code) => done(code));
  });
}

function report(run: Run): void {
  const mark = run.code === 0 ? 'ok  ' : 'FAIL';
  console.log(
    `${mark} ${relative('.', run.name)} ${(run.ms / 1000).toFixed(1)} s${run.note ? ` (${run.note})` : ''}`,
  );
  if (run.code !== 0) console.log(run.output.replaceAll(/^/gm, '    ').slice(-12_000));
}

function count(output: string, key: string): number {
  return Number(new RegExp(`^ℹ ${key} (\\d+)`, 'm').exec(output)?.[1] ?? 0);
}

/** Ends what the tests left behind: only processes that carry this run's own mark. */
function finish(code: number): never {
  clearTimeout(hardStop);
  if (process.platform === 'linux') {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      if (Number(pid) === process.pid) continue;
      try {
        if (readFileSync(`/proc/${pid}/environ`, 'utf8').includes(marker)) kill(Number(pid));
      } catch {
        // gone, or not ours to read
      }
    }
  }
  rmSync(scratch, { recursive: true, force: true });
  process.exit(code);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // already gone
  }
}
