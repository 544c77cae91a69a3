// Time as an injected dependency: tests use a manual clock, and nothing else may call timers.

export interface Clock {
  /** Wall time, epoch milliseconds. */
  now(): number;
  /** Resolves after `ms`, or immediately when the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `fn` once after `ms`, unless the returned function is called first. Does not keep the process alive. */
  after(ms: number, fn: () => void): () => void;
}

/** setTimeout accepts 32-bit delays. Longer ones are split. */
const maxTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        cancel();
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const cancel = start(ms, done);
      signal?.addEventListener('abort', done, { once: true });
    }),
  after: (ms, fn) => start(ms, fn, (timer) => timer.unref()),
};

function start(ms: number, fn: () => void, onTimer: (timer: NodeJS.Timeout) => void = () => {}) {
  let timer: NodeJS.Timeout;
  const wait = (remainingMs: number) => {
    const partMs = Math.min(Math.max(remainingMs, 0), maxTimerMs);
    timer = setTimeout(() => (remainingMs > partMs ? wait(remainingMs - partMs) : fn()), partMs);
    onTimer(timer);
  };
  wait(ms);
  return () => clearTimeout(timer);
}

let isoSecond = Number.NaN;
let isoPrefix = '';

/** The format of times in every API. Times of one second share the costly part of the conversion. */
export function isoTime(at: number): string {
  const second = Math.floor(at / 1000);
  if (second !== isoSecond) {
    isoPrefix = new Date(second * 1000).toISOString().slice(0, -4);
    isoSecond = second;
  }
  const ms = Math.floor(at - second * 1000);
  return `${isoPrefix}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Yields to other pending work. Use it between the pieces of long synchronous work. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A clock that moves only when a test moves it. Due calls run in order. */
export class ManualClock implements Clock {
  private time: number;
  private seq = 0;
  private waiting: { at: number; seq: number; fn: () => void }[] = [];

  constructor(start = 1_700_000_000_000) {
    this.time = start;
  }

  now(): number {
    return this.time;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const cancel = this.after(ms, resolve);
      signal?.addEventListener('abort', () => (cancel(), resolve()), { once: true });
    });
  }

  after(ms: number, fn: () => void): () => void {
    const entry = { at: this.time + Math.max(ms, 0), seq: this.seq++, fn };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter((other) => other !== entry);
    };
  }

  /** Moves time forward and lets promises settle between due calls. */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      const next = this.waiting.toSorted((a, b) => a.at - b.at || a.seq - b.seq)[0];
      if (!next || next.at > end) break;
      this.waiting = this.waiting.filter((entry) => entry !== next);
      this.time = Math.max(this.time, next.at);
      next.fn();
      await nextTurn();
    }
    this.time = end;
  }

  /** Jumps like after a suspend or a clock correction: no due call runs in between. */
  jump(ms: number): void {
    this.time += ms;
  }
}
