// What a person would see now in the terminal of a job: its output played into a terminal emulator.
import { createRequire } from 'node:module';
import type { TerminalSize } from '../process/wrapper.ts';
import { shortened } from './clean.ts';
import type { Log } from './log.ts';

/** A screen is made by the last output; programs that draw screens repaint within far less than this. */
const replayBytesMax = 2 * 2 ** 20;

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

export interface Screen {
  text: string;
  cursor: { row: number; col: number };
  /** Rows at the top for which there was no room. */
  hiddenRows: number;
}

export async function renderScreen(
  log: Log,
  size: TerminalSize,
  bytesMax = Infinity,
): Promise<Screen> {
  // The package is CommonJS and touches nothing at import; it is loaded only when somebody looks.
  const { Terminal } = createRequire(import.meta.url)('@xterm/headless') as {
    Terminal: new (options: object) => Emulator;
  };
  const terminal = new Terminal({ ...size, scrollback: 0, allowProposedApi: true });
  try {
    const bytes = await log.bytes(Math.max(log.size - replayBytesMax, log.start), log.size);
    await new Promise<void>((resolve) => terminal.write(bytes, resolve));
    const { active } = terminal.buffer;
    const lines = Array.from(
      { length: size.rows },
      (_, row) => active.getLine(active.baseY + row)?.translateToString(true) ?? '',
    );
    while (lines.at(-1) === '') lines.pop();
    const shown = lastRows(lines, bytesMax);
    return {
      text: shown.join('\n'),
      cursor: { row: active.cursorY + 1, col: active.cursorX + 1 },
      hiddenRows: lines.length - shown.length,
    };
  } finally {
    terminal.dispose();
  }
}

function lastRows(rows: readonly string[], bytesMax: number): string[] {
  const shown: string[] = [];
  let room = bytesMax;
  for (const row of rows.toReversed()) {
    const text = shortened(row, bytesMax);
    room -= Buffer.byteLength(text);
    if (room < 0) break;
    shown.unshift(text);
    room -= 1;
  }
  return shown;
}
