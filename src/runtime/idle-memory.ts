// Returns memory to the system while the process is idle. V8 keeps the heap that startup and busy periods needed, so an
// idle server would otherwise hold twice the memory it uses.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** A process that uses less than this share of one core is idle. */
const maxIdleShare = 0.02;
/** Consecutive idle samples before memory is returned: a pause between two calls does not count. */
const minIdleSamples = 5;
/** Growth of the heap since the last collection that justifies another one. */
const minGrowthBytes = 8 * 1024 * 1024;

interface Usage {
  /** CPU time of the process so far. */
  cpuMs: number;
  heapBytes: number;
}

export class IdleMemory {
  private readonly usage: () => Usage;
  private readonly collect: () => void;
  private last: { at: number; cpuMs: number } | undefined;
  private idleSamples = 0;
  private keptBytes = 0;

  constructor(usage = processUsage, collect = collectGarbage) {
    this.usage = usage;
    this.collect = collect;
  }

  /** Called about once a second. */
  sample(now: number): void {
    const { cpuMs, heapBytes } = this.usage();
    const { last } = this;
    this.last = { at: now, cpuMs };
    if (!last || now <= last.at) return;
    const share = (cpuMs - last.cpuMs) / (now - last.at);
    this.idleSamples = share < maxIdleShare ? this.idleSamples + 1 : 0;
    if (this.idleSamples < minIdleSamples || heapBytes - this.keptBytes < minGrowthBytes) return;
    this.collect();
    this.keptBytes = this.usage().heapBytes;
    this.idleSamples = 0;
  }
}

export function processUsage(): Usage {
  const { user, system } = process.cpuUsage();
  return { cpuMs: (user + system) / 1000, heapBytes: process.memoryUsage().heapTotal };
}

const collections = 8;

type Gc = (options: { type: 'major'; flavor?: 'last-resort' }) => void;

/** Node offers `gc` only with a flag. The flag can be set at run time; it applies to new contexts. */
export function exposeGc(): Gc {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as Gc;
  setFlagsFromString('--no-expose-gc');
  return gc;
}

export function collectGarbage(): void {
  const gc = exposeGc();
  // V8 discards the bytecode of a function that was not called between several collections.
  for (let i = 0; i < collections; i++) gc({ type: 'major', flavor: 'last-resort' });
}
