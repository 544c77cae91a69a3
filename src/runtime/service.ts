// The start/stop contract of everything that runs in the background, and the one loop helper.
import type { Clock } from './clock.ts';
import type { Log } from './log.ts';

/** start() returns once it works; stop() waits until nothing of it runs any more; a second stop is fine. */
export interface Service {
  name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Between two looks of a loop that has nothing to do. */
const quietMs = 5000;

export interface LoopOptions {
  name: string;
  everyMs: number;
  /** While this says so, nothing is due before somebody wakes it: it looks at its leisure. */
  isQuiet?(): boolean;
  clock: Clock;
  log: Log;
  run(signal: AbortSignal): Promise<void>;
}

/** Runs a function again and again, never twice at once; an error is logged and the loop goes on. */
export class Loop implements Service {
  readonly name: string;
  private readonly options: LoopOptions;
  private stopping = new AbortController();
  private nudge = new AbortController();
  private running: Promise<void> | undefined;

  constructor(options: LoopOptions) {
    this.name = options.name;
    this.options = options;
  }

  async start(): Promise<void> {
    if (this.running) return;
    this.stopping = new AbortController();
    this.running = this.turn();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.nudge.abort();
    await this.running;
    this.running = undefined;
  }

  /** Runs the next turn now instead of at its time. */
  wake(): void {
    // With a reason of our own: the default one is an error with a stack, dear for something that every commit does.
    this.nudge.abort('woken');
  }

  private async turn(): Promise<void> {
    const { clock, log, run, everyMs, isQuiet, name } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      this.nudge = new AbortController();
      try {
        await run(signal);
      } catch (error) {
        if (!signal.aborted) log.error(`${name} failed and goes on`, { error });
      }
      const pauseMs = isQuiet?.() ? Math.max(everyMs, quietMs) : everyMs;
      if (!signal.aborted) await clock.sleep(pauseMs, this.nudge.signal);
    }
  }
}
