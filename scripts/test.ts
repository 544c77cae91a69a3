// `npm test`: the checks, then every test file in its own process, several concurrently.
// A run owns one temp folder. Everything the tests create is inside it, and it is removed when the run ends, even on
// Ctrl-C. The next run removes the folder of a run that was killed. Downloads that are expensive to unpack stay in
// one cache folder (test/helpers/cache.ts).
// A file has a time limit and is killed with everything it started. Output goes to files, so that a stray process cannot
// keep a pipe open.
// Usage: node scripts/test.ts [--only check|files|clients] [path part …]
// `clients` runs test/clients: third-party programs that are too heavy for `npm test`.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeBundle } from '../src/interfaces/dashboard/index.ts';
import { startServer } from '../test/helpers/postgres-server.ts';
import { bundle } from './bundle.ts';

interface Run {
  name: string;
  code: number;
  ms: number;
  output: string;
  note?: string;
}

const root = join(import.meta.dirname, '..');
const deep = process.env.ERRAND_TEST_DEEP === '1';
const fileLimitMs = deep ? 3_600_000 : 480_000;
const runLimitMs = deep ? 7_200_000 : 2_400_000;
const concurrentFiles = Number(
  process.env.ERRAND_TEST_JOBS ?? Math.max(3, availableParallelism() + 2),
);
/** The official conformance suite allows one second for some responses, so these files run first, one at a time. */
const exclusiveFiles = ['test/e2e/conformance.test.ts'];
/** Folders with slow files, fastest first. Slow files start early, so that a run does not end with one file alone. */
const slowFolders = ['/deep/', '/e2e/', '/cluster/', '/dialects/', '/web/', 'dashboard', 'docs-commands', 'removal', 'simulation', 'web/browser']; // prettier-ignore
const slowestShown = 10;
/** Room for the connections of all files; its databases are too short-lived to vacuum. */
const sharedPostgres = { max_connections: '500', autovacuum: 'off' };

const scratchPrefix = 'errand-test-run-';
removeAbandonedRuns();
const scratch = fs.mkdtempSync(join(tmpdir(), `${scratchPrefix}${process.pid}-`));
// As open as /tmp: the tests run PostgreSQL and Chromium as an unprivileged user.
fs.chmodSync(scratch, 0o1777);
const logs = fs.mkdtempSync(join(scratch, 'logs-'));
// Processes that this script starts belong to the run as well.
Object.assign(process.env, { TMPDIR: scratch, ERRAND_TEST_RUN: scratch });

const args = process.argv.slice(2);
const only = args.includes('--only') ? args[args.indexOf('--only') + 1] : undefined;
const parts = args.filter((arg, i) => !arg.startsWith('--') && args[i - 1] !== '--only');

const hardStop = setTimeout(() => {
  console.log(`the run did not end within ${runLimitMs / 60_000} min and was stopped`);
  finish(1);
}, runLimitMs);
process.on('SIGTERM', () => finish(143));
process.on('SIGINT', () => finish(130));
process.on('SIGHUP', () => finish(129));

let passed = true;
if ((!only || only === 'check') && parts.length === 0) passed = await runChecks();
if (only !== 'check') passed = (await runFiles()) && passed;
finish(passed ? 0 : 1);

async function runChecks(): Promise<boolean> {
  const bin = (folder: string, name: string) => join(root, folder, 'node_modules/.bin', name);
  const linted = ['src', 'test', 'scripts', 'bench', 'bin', 'examples'];
  const checks: [string, string[]][] = [
    ['types', [bin('', 'tsc'), '--noEmit', '-p', root]],
    [
      'types of the dashboard',
      [bin('', 'tsc'), '-p', join(root, 'src/interfaces/dashboard/browser')],
    ],
    ['lint', [bin('tools', 'oxlint'), '--type-aware', '--deny-warnings', ...linted]],
    ['format', [bin('tools', 'oxfmt'), '--check', '.']],
    ['graph', [process.execPath, join(root, 'scripts/graph.ts')]],
    ['docs', [process.execPath, join(root, 'scripts/docs.ts'), '--check']],
  ];
  const runs: Run[] = [];
  for (const [name, command] of checks) runs.push(report(await runProcess(name, command)));
  return runs.every(({ code }) => code === 0);
}

async function runFiles(): Promise<boolean> {
  const files = testFiles();
  if (files.length === 0) {
    console.log('no test file matches');
    return false;
  }
  // One PostgreSQL for all files: starting one costs as much as a short file.
  process.env.ERRAND_TEST_POSTGRES ??= (await startServer(sharedPostgres)).url;
  process.env.ERRAND_TEST_PROGRAM = await builtProgram();
  const runs: Run[] = [];
  const runAll = async (waiting: string[]) => {
    for (let file = waiting.shift(); file; file = waiting.shift())
      runs.push(report(await runFile(file)));
  };
  await runAll(files.filter((file) => exclusiveFiles.includes(file)));
  const waiting = files.filter((file) => !exclusiveFiles.includes(file));
  await Promise.all(Array.from({ length: concurrentFiles }, () => runAll(waiting)));
  return summary(runs);
}

/** The program as the package contains it. */
async function builtProgram(): Promise<string> {
  const folder = join(scratch, 'program');
  const dist = join(folder, 'dist');
  await bundle(join(root, 'src'), dist);
  await writeBundle(join(dist, 'interfaces', 'dashboard', 'assets'));
  for (const part of ['bin', 'plugin', 'package.json'])
    fs.cpSync(join(root, part), join(folder, part), { recursive: true });
  fs.symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'bin', 'errand.js');
}

function testFiles(): string[] {
  const weight = (file: string) => slowFolders.findLastIndex((part) => file.includes(part));
  return fs
    .globSync('test/**/*.test.ts', { cwd: root, exclude: (f) => f.includes('node_modules') })
    .filter((file) => file.startsWith('test/clients/') === (only === 'clients'))
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
    .sort((a, b) => weight(b) - weight(a) || a.localeCompare(b));
}

function runFile(file: string): Promise<Run> {
  const limit = `--test-timeout=${fileLimitMs / 2}`;
  // One process per file: with a second one in between, a forced exit loses results.
  const isolation = '--test-isolation=none';
  const options = ['--test', isolation, '--test-reporter=spec', limit, '--test-force-exit'];
  return runProcess(file, [process.execPath, ...options, join(root, file)]);
}

function runProcess(name: string, [command, ...commandArgs]: string[]): Promise<Run> {
  const path = join(logs, `${name.replaceAll(/[^\w.]/g, '-')}.log`);
  const out = fs.openSync(path, 'w');
  const start = Date.now();
  return new Promise((resolve) => {
    const child = spawn(command!, commandArgs, {
      cwd: root,
      detached: true,
      stdio: ['ignore', out, out],
      env: {
        ...process.env,
        NODE_ENV: 'test',
        // oxlint looks for its type-aware part in the root's packages only.
        OXLINT_TSGOLINT_PATH: join(root, 'tools/node_modules/.bin/tsgolint'),
        // Most files load most of the source: it is compiled once.
        NODE_COMPILE_CACHE: join(scratch, 'compiled'),
        FORCE_COLOR: '0',
      },
    });
    fs.closeSync(out);
    let note: string | undefined;
    const limit = setTimeout(() => {
      note = `killed after ${fileLimitMs / 1000} s`;
      kill(-child.pid!);
    }, fileLimitMs);
    const done = (code: number) => {
      clearTimeout(limit);
      const output = fs.readFileSync(path, 'utf8');
      resolve({ name, code, ms: Date.now() - start, output, ...(note ? { note } : {}) });
    };
    child.on('error', () => done(1));
    child.on('exit', (code) => done(code ?? 1));
  });
}

function report(run: Run): Run {
  const note = run.note ? ` (${run.note})` : '';
  console.log(`${run.code === 0 ? 'ok  ' : 'FAIL'} ${run.name} ${seconds(run)}${note}`);
  if (run.code !== 0) console.log(run.output.replaceAll(/^/gm, '    ').slice(-12_000));
  return run;
}

function summary(runs: Run[]): boolean {
  const total = (key: string) =>
    runs.reduce((sum, { output }) => {
      return sum + Number(new RegExp(`^ℹ ${key} (\\d+)`, 'm').exec(output)?.[1] ?? 0);
    }, 0);
  const slowest = runs.toSorted((a, b) => b.ms - a.ms).slice(0, slowestShown);
  console.log('slowest files:');
  for (const run of slowest) console.log(`  ${seconds(run).padStart(7)} ${run.name}`);
  const skipped = runs.flatMap(({ name, output }) =>
    [...output.matchAll(/^\s*﹣ (.*?) \([\d.]+ms\) # (.*)$/gm)].map(
      ([, title, reason]) => `  ${name}: ${title}: ${reason}`,
    ),
  );
  console.log(skipped.length > 0 ? 'tests that did not run:' : 'every test ran');
  for (const line of skipped) console.log(line);
  const broken = runs.filter(({ code }) => code !== 0);
  for (const { name } of broken) console.log(`failed: ${name}`);
  console.log(`${runs.length} files, ${total('tests')} tests`);
  const failed = Math.max(total('fail') + total('cancelled'), broken.length);
  console.log(`${total('pass')} passed, ${failed} failed, ${total('skipped')} skipped`);
  return broken.length === 0;
}

function seconds({ ms }: Run): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Ends what the tests left running and removes everything they created. */
function finish(code: number): never {
  clearTimeout(hardStop);
  removeRun(scratch);
  process.exit(code);
}

/** A run that was killed could not remove its folder. */
function removeAbandonedRuns(): void {
  for (const name of fs.readdirSync(tmpdir())) {
    const pid = /^errand-test-run-(\d+)-/.exec(name)?.[1];
    const folder = join(tmpdir(), name);
    if (pid && !fs.existsSync(`/proc/${pid}`) && process.platform === 'linux' && isOurs(folder))
      removeRun(folder);
  }
}

/** Another user's folder cannot be removed. */
function isOurs(folder: string): boolean {
  return fs.statSync(folder).uid === process.getuid?.();
}

function removeRun(folder: string): void {
  // Only processes of this run. One that forks while it is killed is found in the next round.
  while (markedProcesses(folder).map((pid) => kill(pid)).length > 0);
  if (process.platform === 'linux') {
    const mounts = fs.readFileSync('/proc/mounts', 'utf8').split('\n');
    for (const mount of mounts.map((line) => line.split(' ')[1] ?? ''))
      if (mount.startsWith(`${folder}/`)) execFileSync('umount', ['-l', mount]);
  }
  // A test that failed may leave a folder that its owner cannot read.
  if (process.getuid?.() !== 0) spawnSync('chmod', ['-R', 'u+rwX', folder]);
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

/** Some programs get a filtered environment, but every one names a path in the folder: TMPDIR, ERRAND_HOME. */
function markedProcesses(folder: string): number[] {
  if (process.platform !== 'linux') return [];
  const isMarked = (pid: string) => {
    try {
      return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder);
    } catch {
      return false; // gone, or of another user
    }
  };
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid && isMarked(name))
    .map(Number);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // already gone
  }
}
