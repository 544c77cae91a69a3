// Shared by all benchmarks: rounds interleaved with the peer, one result line with a ratio, and peers installed on demand.
// An unavailable peer prints MISSING and counts as failed. The exit code reports whether all bars were met.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** One side of a comparison, ready for repeated measurement. */
export interface Side {
  name: string;
  /** Not measured: prepares a round, e.g. jobs to claim. */
  prepare?(): Promise<void>;
  /** Runs one round and returns the compared figure: a rate, a time, a number of bytes. */
  round(): Promise<number>;
  /** Operations per round. If set, CPU time per operation is shown as well, which hardly depends on other load. */
  operations?: number;
  /** Processes that work for this side, with all their children. */
  servicePids?: number[];
  close?(): Promise<void>;
}

/** `none`: shown for comparison, without a bar. */
export type Bar = { atLeast: number } | { atMost: number } | 'none';

export interface Peer {
  name: string;
  bar: Bar;
  /** Throws if the peer is unavailable. */
  open(): Promise<Side>;
}

export interface Comparison {
  name: string;
  unit: string;
  rounds: number;
  ours: () => Promise<Side>;
  peers: Peer[];
}

/** Interleaves the rounds of all sides, so that other load affects them equally. The ratio is the median of all rounds. */
export async function compare(comparison: Comparison): Promise<void> {
  const ours = await comparison.ours();
  const sides: { peer: Peer; side: Side | undefined; why?: string }[] = [];
  for (const peer of comparison.peers) {
    try {
      sides.push({ peer, side: await peer.open() });
    } catch (error) {
      sides.push({ peer, side: undefined, why: (error as Error).message });
    }
  }
  const figures = new Map<Side, number[]>();
  const cpu = new Map<Side, number[]>();
  const present = [ours, ...sides.flatMap(({ side }) => (side ? [side] : []))];
  try {
    // The first round warms up caches and the compiler on every side and is not counted.
    for (let round = 0; round <= comparison.rounds; round++) {
      for (const side of present) {
        await side.prepare?.();
        const before = cpuOf(side);
        const figure = await side.round();
        if (round === 0) continue;
        figures.set(side, [...(figures.get(side) ?? []), figure]);
        const spent = (cpuOf(side) - before) / (side.operations ?? 1);
        cpu.set(side, [...(cpu.get(side) ?? []), spent]);
      }
    }
  } finally {
    for (const side of present) await side.close?.();
  }
  for (const { peer, side, why } of sides) {
    const title = `${comparison.name} vs ${peer.name}`;
    if (!side) missing(title, peer.bar, why!);
    else {
      const cpuText = side.operations
        ? cpuLine(median(cpu.get(ours)!), median(cpu.get(side)!))
        : '';
      const rates = { ours: figures.get(ours)!, peer: figures.get(side)! };
      report(title, { ...rates, unit: comparison.unit, bar: peer.bar, cpuText });
    }
  }
}

const cpuLine = (ours: number, peer: number): string =>
  `; CPU per operation ours ${Math.round(ours)} µs, peer ${Math.round(peer)} µs`;

function report(
  title: string,
  measured: { ours: number[]; peer: number[]; unit: string; bar: Bar; cpuText: string },
): void {
  const { ours, peer, unit, bar, cpuText } = measured;
  const ratio = median(ours.map((value, i) => value / peer[i]!));
  const met = isMet(ratio, bar);
  if (!met) process.exitCode = 1;
  const figures = `ours ${show(median(ours))}${unit}, peer ${show(median(peer))}${unit}`;
  console.log(
    `${title}: ${figures}, ratio ${ratio.toFixed(2)} (bar ${barText(bar)}) ${met ? 'ok' : 'BELOW'}${cpuText}`,
  );
}

export function missing(title: string, bar: Bar, why: string): void {
  process.exitCode = 1;
  console.log(`${title}: MISSING (bar ${barText(bar)}): ${why.split('\n')[0]}`);
}

function isMet(ratio: number, bar: Bar): boolean {
  if (bar === 'none') return true;
  return 'atLeast' in bar ? ratio >= bar.atLeast : ratio <= bar.atMost;
}

function barText(bar: Bar): string {
  if (bar === 'none') return 'none';
  return 'atLeast' in bar ? `≥ ${bar.atLeast}×` : `≤ ${bar.atMost}×`;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function show(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}

/** Runs this many workers concurrently until `total` calls were made; returns calls per second. */
export async function rate(
  total: number,
  concurrency: number,
  call: () => Promise<unknown>,
): Promise<number> {
  let left = total;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      await call();
    }
  };
  return timed(total, () => Promise.all(Array.from({ length: concurrency }, worker)));
}

/** Operations per second of a run that does `count` of them. */
export async function timed(count: number, run: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await run();
  return count / ((performance.now() - start) / 1000);
}

/** 230 bytes of JSON: the payload of every queue benchmark. */
export const payload = { url: 'https://example.com/some/page', depth: 3, text: 'x'.repeat(173) };

/** Loads a package of bench/package.json. The first call installs all of them. */
export async function importPeer<T>(name: string): Promise<T> {
  installPeers();
  const entry = createRequire(join(import.meta.dirname, 'package.json')).resolve(name);
  return (await import(pathToFileURL(entry).href)) as T;
}

function installPeers(): void {
  const installer = join(import.meta.dirname, '../scripts/install.cjs');
  const { status } = spawnSync(process.execPath, [installer, 'bench'], { stdio: 'inherit' });
  if (status !== 0) throw new Error('the benchmark peers could not be installed');
}

/** A folder on disk (never in memory, because durability is measured) that is removed when the process ends. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(process.env.BENCH_DIR ?? tmpdir(), 'errand-bench-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

/** CPU time in µs of this process and the side's service, including running and reaped children (Linux). */
function cpuOf({ servicePids = [] }: Side): number {
  const { user, system } = process.cpuUsage();
  return user + system + sum(servicePids.map(treeCpu));
}

/** CPU time of a process and all its children, in µs (Linux). */
export function treeCpu(root: number): number {
  const parents = new Map<number, number>();
  const spent = new Map<number, number>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1]!.split(' ');
      parents.set(Number(name), Number(fields[1]));
      spent.set(Number(name), sum(fields.slice(11, 15).map(Number)) * tickUs);
    } catch {
      // It ended in the meantime.
    }
  }
  const within = (pid: number | undefined): boolean =>
    pid !== undefined && (pid === root || within(parents.get(pid)));
  return sum([...spent].filter(([pid]) => within(pid)).map(([, us]) => us));
}

/** The kernel counts in hundredths of a second. */
const tickUs = 10_000;
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
