// Connects this terminal to the terminal of a job: forwards keys and the window size, and writes the job's output bytes.
import { StringDecoder } from 'node:string_decoder';
import type { Readable, Writable } from 'node:stream';
import { AppError } from '../../errors.ts';
import { isUnreachable, type Client } from './client.ts';
import type { CommandContext } from './command.ts';
import { withReconnect } from './reconnect.ts';
import type { readOutput, resizeTerminal, sendInput } from '../../contracts/command.ts';

const defaultDetachKey = 'ctrl-]';

/** Returns the character that a terminal sends for a key such as `ctrl-]`. */
export function detachKey(name = defaultDetachKey): string {
  const match = /^ctrl-([a-z\]\\^_])$/i.exec(name);
  if (match) return String.fromCodePoint(match[1]!.toUpperCase().codePointAt(0)! & 31);
  throw new AppError('invalidInput', `${name} is not a valid detach key.`, {
    hint: 'Use ctrl with a letter, ctrl-] or ctrl-\\.',
  });
}

/** This much earlier output is replayed on attach: enough to fill any screen. */
const replayBytes = 65_536;
/** Limit of one send_input call. */
const maxInputChars = 16_384;

type Terminal = Readable & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };

export class TerminalSession {
  private readonly context: CommandContext;
  private readonly id: string;
  private readonly key: string;
  private readonly isNew: boolean;
  private readonly leave = new AbortController();
  private readonly decoder = new StringDecoder('utf8');
  private client: Client | undefined;
  private typed = '';
  private sending: Promise<void> | undefined;
  private resizing: Promise<void> | undefined;
  private isSizeOld = false;
  private isOver = false;
  private failure: unknown;

  constructor(
    context: CommandContext,
    { id, key, isNew }: { id: string; key: string; isNew: boolean },
  ) {
    this.context = context;
    this.id = id;
    this.key = key;
    this.isNew = isNew;
  }

  /** Returns true when the person detached, false when the job ended. */
  async run(): Promise<boolean> {
    const { stdin, stdout } = this.context.program;
    const terminal = stdin as Terminal;
    const onKeys = (chunk: Buffer) => this.onKeys(chunk);
    const onResize = () => this.resize();
    const onEnd = () => this.leave.abort();
    this.client = await this.context.client();
    terminal.setRawMode?.(true);
    terminal.on('data', onKeys);
    terminal.on('end', onEnd);
    stdout.on('resize', onResize);
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, onEnd);
    try {
      if (!this.isNew) this.resize();
      await this.draw(this.client);
    } catch (error) {
      if (!this.leave.signal.aborted) throw error;
    } finally {
      this.isOver = true;
      terminal.off('data', onKeys);
      terminal.off('end', onEnd);
      stdout.off('resize', onResize);
      for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, onEnd);
      terminal.pause();
      terminal.setRawMode?.(false);
      await write(stdout, restoreTerminal);
    }
    await this.sending;
    if (this.failure) throw this.failure;
    return this.leave.signal.aborted;
  }

  /** Writes all output of the job: from its start, or from what is on its screen now. */
  private async draw(first: Client): Promise<void> {
    const { stdout } = this.context.program;
    const { signal } = this.leave;
    let cursor = this.isNew ? '0' : await this.replay(first);
    await withReconnect(this.context, first, async (client, progress) => {
      this.client = client;
      const input = { id: this.id, cursor, raw: true, lossless: true };
      for await (const item of client.follow('read_output', input, signal)) {
        progress();
        const { base64, text = '' } = item.data as { base64?: string; text?: string };
        await write(stdout, base64 === undefined ? text : Buffer.from(base64, 'base64'));
        cursor = item.id ?? cursor;
        if (item.event === 'end') return true;
      }
      return 'again';
    });
  }

  private async replay(client: Client): Promise<string> {
    const { stdout } = this.context.program;
    const head = { id: this.id, raw: true, maxBytes: 200 };
    const { output } = await client.call<typeof readOutput>('read_output', head);
    let cursor = String(Math.max(0, output.size - replayBytes));
    const input = { id: this.id, cursor, raw: true, lossless: true, once: true };
    const drawn: Buffer[] = [];
    for await (const { data, id } of client.follow('read_output', input, this.leave.signal)) {
      const { base64, text = '' } = data as { base64?: string; text?: string };
      drawn.push(base64 === undefined ? Buffer.from(text) : Buffer.from(base64, 'base64'));
      cursor = id ?? cursor;
    }
    const bytes = Buffer.concat(drawn);
    const isWhole = output.size <= replayBytes;
    await write(stdout, withoutQueries(isWhole ? bytes : bytes.subarray(firstStart(bytes))));
    return cursor;
  }

  private onKeys(chunk: Buffer): void {
    if (this.isOver) return;
    const text = this.decoder.write(chunk);
    const at = text.indexOf(this.key);
    this.typed += at < 0 ? text : text.slice(0, at);
    this.sending ??= this.send().finally(() => (this.sending = undefined));
    if (at >= 0) void this.sending.finally(() => this.leave.abort());
  }

  /** Sends one call at a time, so that keys arrive in order. Keys typed in the meantime are sent together. */
  private async send(): Promise<void> {
    while (this.typed !== '' && !this.isOver) {
      const text = this.typed.slice(0, maxInputChars);
      try {
        const input = { id: this.id, text, waitMs: 0, maxBytes: 200 };
        const { output } = await this.client!.call<typeof sendInput>('send_input', input);
        this.typed = Buffer.from(this.typed).subarray(output.sent).toString();
        // The job does not read its input now: keys wait, as in any terminal.
        if (output.sent === 0) await this.context.program.clock.sleep(100);
      } catch (error) {
        if (isUnreachable(error)) {
          await this.context.program.clock.sleep(250);
          continue;
        }
        // The job has just ended and accepts no keys. The output stream reports its end.
        if (error instanceof AppError && error.code === 'wrongState') return;
        this.failure = error;
        this.leave.abort();
        return;
      }
    }
  }

  private resize(): void {
    this.isSizeOld = true;
    this.resizing ??= this.passSize().finally(() => (this.resizing = undefined));
  }

  private async passSize(): Promise<void> {
    const { stdout } = this.context.program;
    while (this.isSizeOld && !this.isOver) {
      this.isSizeOld = false;
      const { columns: cols = 0, rows = 0 } = stdout;
      if (cols < 2 || rows < 2) return;
      try {
        await this.client!.call<typeof resizeTerminal>('resize_terminal', {
          id: this.id,
          cols,
          rows,
        });
      } catch (error) {
        this.context.program.log.debug('window size was not forwarded', { error });
      }
    }
  }
}

/** Terminal queries in replayed output: this terminal would reply to them again, as input of the job. */
const queries =
  // eslint-disable-next-line no-control-regex
  /\u001b\[[?>=]?[\d;]*[cn]|\u001b\[[?\d;]*\$p|\u001b\][\d;]*\?[^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001bP[+$]q[^\u001b]*\u001b\\/g;

const withoutQueries = (bytes: Buffer): Buffer =>
  Buffer.from(bytes.toString('latin1').replaceAll(queries, ''), 'latin1');

/** Start of the first complete line or escape sequence. */
const firstStart = (bytes: Buffer): number =>
  Math.max(
    0,
    bytes.findIndex((byte) => byte === 10 || byte === 27),
  );

/** Resets what a full-screen program may have enabled: alternate screen, hidden cursor, mouse, bracketed paste, keypad. */
const restoreTerminal =
  '\u001b[?1049l\u001b[?25h\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?2004l\u001b[?1l\u001b>\u001b[0m\r';

async function write(stream: Writable, bytes: Buffer | string): Promise<void> {
  if (bytes.length > 0 && !stream.write(bytes))
    await new Promise((resolve) => stream.once('drain', resolve));
}
