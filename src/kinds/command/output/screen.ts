// Renders the current screen of a job's terminal by replaying its output in a terminal emulator.
import { createRequire } from 'node:module';
import type { TerminalSize } from '../process/wrapper.ts';
import { shorten } from './text.ts';
import type { Log } from './log.ts';

/** How much output to replay. Full-screen programs repaint the screen within far less than this. */
const maxReplayBytes = 2 * 2 ** 20;

interface Emulator {
  write(data: Uint8Array, done: () => void): void;
  dispose(): void;
  buffer: {
    active: {
      baseY: number;
      cursorX: number;
      cursorY: number;
      getLine(y: number): { translateToString(trim: boolean): string } | undefined;
    };
  };
}

interface Screen {
  text: string;
  cursor: { row: number; col: number };
  /** Rows at the top that did not fit into the byte limit. */
  hiddenRows: number;
}

export async function renderScreen(
  log: Log,
  size: TerminalSize,
  maxBytes = Infinity,
): Promise<Screen> {
  // The package is CommonJS and is loaded only when a screen is requested.
  const { Terminal } = createRequire(import.meta.url)('@xterm/headless') as {
    Terminal: new (options: object) => Emulator;
  };
  const terminal = new Terminal({ ...size, scrollback: 0, allowProposedApi: true });
  try {
    const bytes = await log.bytes(Math.max(log.size - maxReplayBytes, log.start), log.size);
    await new Promise<void>((resolve) => terminal.write(bytes, resolve));
    const { active } = terminal.buffer;
    const lines = Array.from(
      { length: size.rows },
      (_, row) => active.getLine(active.baseY + row)?.translateToString(true) ?? '',
    );
    while (lines.at(-1) === '') lines.pop();
    const shown = lastRows(lines, maxBytes);
    return {
      text: shown.join('\n'),
      cursor: { row: active.cursorY + 1, col: active.cursorX + 1 },
      hiddenRows: lines.length - shown.length,
    };
  } finally {
    terminal.dispose();
  }
}

function lastRows(rows: readonly string[], maxBytes: number): string[] {
  const shown: string[] = [];
  let room = maxBytes;
  for (const row of rows.toReversed()) {
    const text = shorten(row, maxBytes);
    room -= Buffer.byteLength(text);
    if (room < 0) break;
    shown.unshift(text);
    room -= 1;
  }
  return shown;
}
