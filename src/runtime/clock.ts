// Time, as a value that can be passed in: tests drive a manual clock, nothing else may call timers.

export interface Clock {
  /** Wall time, epoch milliseconds. */
  now(): number;
  /** Resolves after ms, or at once when the signal aborts (it never rejects). */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls fn once after ms; the returned function takes it back. Does not keep the process alive. */
  after(ms: number, fn: () => void): () => void;
}

/** setTimeout counts in 32 bits: what is longer is waited for in parts. */
const timerMsMax = 2 ** 31 - 1;

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

function start(ms: number, fn: () => void, each: (timer: NodeJS.Timeout) => void = () => {}) {
  let timer: NodeJS.Timeout;
  const wait = (leftMs: number) => {
    const partMs = Math.min(Math.max(leftMs, 0), timerMsMax);
    timer = setTimeout(() => (leftMs > partMs ? wait(leftMs - partMs) : fn()), partMs);
    each(timer);
  };
  wait(ms);
  return () => clearTimeout(timer);
}

/** A time as it is told on the wire. */
export const isoTime = (at: number): string => new Date(at).toISOString();

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Lets everything else that waits have its turn: for work in pieces that would hold it up together. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A clock that only moves when told to; due calls run in order while it moves. */
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

  /** A jump, as after a suspend or a corrected clock: nothing runs in between. */
  jump(ms: number): void {
    this.time += ms;
  }
}
