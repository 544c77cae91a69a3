// The real program in a real terminal: a pty with a size, keys, and a screen as a person sees it.
import type { TestContext } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import headless from '@xterm/headless';
import { spawn } from '@lydell/node-pty';
import { bin, serverEnv } from './server.ts';
import { until } from './until.ts';

export interface Terminal {
  pid: number;
  /** Everything drawn so far, including escape sequences. */
  drawn(): string;
  /** The current lines of the screen. */
  screen(): Promise<string[]>;
  type(keys: string): void;
  resize(cols: number, rows: number): void;
  /** Waits until the screen matches. */
  shows(pattern: RegExp): Promise<void>;
  exited: Promise<number>;
}

export interface TerminalOptions {
  cols?: number;
  rows?: number;
  cwd?: string;
  env?: Record<string, string>;
}

/** Runs `errand …` in its own terminal. It is ended with the test. */
export function errandIn(
  t: TestContext,
  home: string,
  args: readonly string[],
  { cols = 80, rows = 24, cwd, env = {} }: TerminalOptions = {},
): Terminal {
  const { NO_COLOR: _none, FORCE_COLOR: _force, ...inherited } = serverEnv(home);
  const pty = spawn(process.execPath, [bin, ...args], {
    cols,
    rows,
    name: 'xterm-256color',
    env: { ...inherited, TERM: 'xterm-256color', ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
  const view = new headless.Terminal({ cols, rows, allowProposedApi: true });
  let drawn = '';
  pty.onData((data) => {
    drawn += data;
    view.write(data);
  });
  let isOver = false;
  const exited = new Promise<number>((resolve) =>
    pty.onExit(({ exitCode }) => {
      isOver = true;
      resolve(exitCode);
    }),
  );
  t.after(async () => {
    if (!isOver) pty.kill('SIGKILL');
    await exited;
  });
  const screen = async () => {
    await new Promise<void>((resolve) => view.write('', resolve));
    const { active } = view.buffer;
    return Array.from({ length: active.length }, (_, row) =>
      (active.getLine(row)?.translateToString(true) ?? '').trimEnd(),
    );
  };
  return {
    pid: pty.pid,
    drawn: () => drawn,
    screen,
    type: (keys) => pty.write(keys),
    resize: (toCols, toRows) => {
      pty.resize(toCols, toRows);
      view.resize(toCols, toRows);
    },
    shows: async (pattern) => {
      const isSeen = async () =>
        pattern.test((await screen()).join('\n')) || pattern.test(stripVTControlCharacters(drawn));
      await until(`the screen shows ${pattern}`, isSeen).catch(async (error: unknown) => {
        throw new Error(`it shows:\n${(await screen()).join('\n').trim()}`, { cause: error });
      });
    },
    exited,
  };
}
