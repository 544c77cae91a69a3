// Handles ctrl-c while a job is being started and followed. Listening starts before the job exists: a ctrl-c between the
// call that starts the job and its response also applies to the job.

import type { Clock } from '../../runtime/clock.ts';

/** A second ctrl-c within this time is a duplicate of the first one. */
const duplicateMs = 250;

/** Signals that a terminal sends to all processes in its foreground group. */
const fromTerminal: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGHUP', 'SIGQUIT']);

/**
 * One ctrl-c may arrive several times: from the terminal, and from a parent that forwards it (npm, or bin/errand.js under
 * an old Node). Only the first one counts.
 */
export function withoutDuplicates(
  clock: Clock,
  handle: (signal: NodeJS.Signals) => void,
): (signal: NodeJS.Signals) => void {
  const handled = new Map<NodeJS.Signals, number>();
  return (signal) => {
    const now = clock.now();
    const isDuplicate = now - (handled.get(signal) ?? -Infinity) < duplicateMs;
    if (isDuplicate && fromTerminal.has(signal)) return;
    handled.set(signal, now);
    handle(signal);
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
    this.listener = withoutDuplicates(clock, (signal) => this.handle(signal));
    for (const name of names) process.on(name, this.listener);
  }

  /** Call before the request that creates the job. */
  starting(): void {
    this.stage = 'starting';
  }

  /** Call when the job is known. `act` receives signals from now on, and one that arrived before. */
  started(act: (count: number) => void): void {
    this.stage = 'started';
    this.act = act;
    if (this.count > 0) act(this.count);
  }

  stop(): void {
    for (const name of this.names) process.off(name, this.listener);
  }

  private handle(signal: NodeJS.Signals): void {
    this.count += 1;
    if (this.stage === 'started') return this.act(this.count);
    // No job exists yet, or the person does not want to wait for the response.
    if (this.stage === 'before' || this.count > 1) process.exit(signal === 'SIGTERM' ? 143 : 130);
  }
}
