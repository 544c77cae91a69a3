// The start/stop contract of background services, and the loop that most of them use.
import type { Clock } from './clock.ts';
import type { Log } from './log.ts';

/** start() resolves once the service works. stop() resolves when nothing of it runs any more, and may be called twice. */
export interface Service {
  name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Pause of a quiet loop. */
const quietMs = 5000;

interface LoopOptions {
  name: string;
  everyMs: number;
  /** While this returns true, nothing is due until `wake` is called, and the loop runs at a slower pace. */
  isQuiet?(): boolean;
  clock: Clock;
  log: Log;
  run(signal: AbortSignal): Promise<void>;
}

/** Runs a function repeatedly, never concurrently with itself. Errors are logged and the loop continues. */
export class Loop implements Service {
  readonly name: string;
  private readonly options: LoopOptions;
  private stopping = new AbortController();
  private wakeSignal = new AbortController();
  private running: Promise<void> | undefined;

  constructor(options: LoopOptions) {
    this.name = options.name;
    this.options = options;
  }

  async start(): Promise<void> {
    if (this.running) return;
    this.stopping = new AbortController();
    this.running = this.runLoop();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.wakeSignal.abort();
    await this.running;
    this.running = undefined;
  }

  /** Runs the next turn immediately. */
  wake(): void {
    // An explicit reason avoids the default error with its stack, which is expensive because every commit calls this.
    this.wakeSignal.abort('woken');
  }

  private async runLoop(): Promise<void> {
    const { clock, log, run, everyMs, isQuiet, name } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      this.wakeSignal = new AbortController();
      try {
        await run(signal);
      } catch (error) {
        if (!signal.aborted) log.error(`${name} failed and continues`, { error });
      }
      const pauseMs = isQuiet?.() ? Math.max(everyMs, quietMs) : everyMs;
      if (!signal.aborted) await clock.sleep(pauseMs, this.wakeSignal.signal);
    }
  }
}
