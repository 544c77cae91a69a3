// ctrl-c while a job is started and followed. Listened to from the first moment: whoever presses it between the call that
// starts the job and its answer means the job, too, and must get what they chose.

import type { Clock } from '../../runtime/clock.ts';

/** Nobody presses ctrl-c twice within this; what comes is the same press by another way. */
const echoMs = 250;

/** What a terminal tells every process that was started from it. */
const fromTerminal: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGHUP', 'SIGQUIT']);

/**
 * One ctrl-c may arrive several times: from the terminal, and from whoever started us and passes it on (npm, a Node that
 * was too old). Only the first of them is meant.
 */
export function withoutEchoes(
  clock: Clock,
  take: (signal: NodeJS.Signals) => void,
): (signal: NodeJS.Signals) => void {
  const taken = new Map<NodeJS.Signals, number>();
  return (signal) => {
    const now = clock.now();
    const isEcho = now - (taken.get(signal) ?? -Infinity) < echoMs;
    if (isEcho && fromTerminal.has(signal)) return;
    taken.set(signal, now);
    take(signal);
  };
}

export class Interrupts {
  private readonly names: readonly NodeJS.Signals[];
  private stage: 'before' | 'starting' | 'started' = 'before';
  private count = 0;
  private act: (count: number) => void = () => {};
  private readonly listener: (signal: NodeJS.Signals) => void;

  constructor(names: readonly NodeJS.Signals[], clock: Clock) {
    this.names = names;
    this.listener = withoutEchoes(clock, (signal) => this.take(signal));
    for (const name of names) process.on(name, this.listener);
  }

  /** From here on a job may exist. */
  starting(): void {
    this.stage = 'starting';
  }

  /** The job is known: signals go to `act`, and so does one that came meanwhile. */
  started(act: (count: number) => void): void {
    this.stage = 'started';
    this.act = act;
    if (this.count > 0) act(this.count);
  }

  stop(): void {
    for (const name of this.names) process.off(name, this.listener);
  }

  private take(signal: NodeJS.Signals): void {
    this.count += 1;
    if (this.stage === 'started') return this.act(this.count);
    // Nothing was started yet, or somebody does not want to wait for the answer.
    if (this.stage === 'before' || this.count > 1) process.exit(signal === 'SIGTERM' ? 143 : 130);
  }
}
