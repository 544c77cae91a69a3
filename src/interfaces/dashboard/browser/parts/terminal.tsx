// A terminal for jobs with a tty or open standard input: shows every byte, sends keys, and resizes the job's terminal.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Xterm } from '@xterm/xterm';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, open, post, problemText, queryText } from '../api.ts';
import { terminalStylesUrl } from '../base.ts';
import { isFinal, type Job } from '../types.ts';
import { withSheets } from './style-sheets.ts';

const retryMs = 1000;
const resizeMs = 100;
const maxScrollback = 5000;
/** A log that is larger than this is shown from here on: older lines would scroll out anyway. */
const maxReplayBytes = 1_000_000;

export function Terminal({ job }: { job: Job }) {
  const place = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<string | undefined>(undefined);
  const [size, setSize] = useState('');
  const isOver = isFinal(job.status);
  const hasTty = (job.input as { tty?: unknown }).tty !== undefined;
  useEffect(() => {
    const session = new Session(job.id, place.current!, {
      hasTty,
      onError: setError,
      onSize: setSize,
    });
    void session.start(isOver);
    return () => session.close();
  }, [job.id, job.attempts.number]);
  return (
    <div class="terminal">
      <div class="terminal-screen" ref={place} />
      <div class="output-foot">
        <span aria-live="polite">
          {isOver
            ? 'The job has ended.'
            : hasTty
              ? `Terminal ${size}`
              : 'Standard input: each line is sent with Enter'}
          {error === undefined ? '' : ` · ${error}`}
        </span>
      </div>
    </div>
  );
}

interface SessionOptions {
  hasTty: boolean;
  onError(text: string | undefined): void;
  onSize(text: string): void;
}

class Session {
  private readonly path: string;
  private readonly options: SessionOptions;
  private readonly terminal: Xterm;
  private readonly fit = new FitAddon();
  private readonly abort = new AbortController();
  private readonly resized: ResizeObserver;
  private resizeTimer: ReturnType<typeof setTimeout> | undefined;
  private isOver = false;
  private typed = '';
  private sending: Promise<void> | undefined;

  constructor(id: string, place: HTMLElement, options: SessionOptions) {
    this.path = `api/jobs/${encodeURIComponent(id)}`;
    this.options = options;
    loadStyles();
    const { background, color } = colorsAt(place);
    this.terminal = new Xterm({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
      fontSize: 13,
      scrollback: maxScrollback,
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      screenReaderMode: true,
      convertEol: !options.hasTty,
      theme: { background, foreground: color, cursor: color },
      linkHandler: { activate: (_event, uri) => openLink(uri) },
    });
    this.terminal.loadAddon(this.fit);
    withSheets(() => this.terminal.open(place));
    this.resized = new ResizeObserver(() => this.scheduleResize());
    this.resized.observe(place);
  }

  async start(isOver: boolean): Promise<void> {
    this.isOver = isOver;
    this.fit.fit();
    if (!isOver) {
      this.terminal.onData((text) => this.type(text));
      this.terminal.onBinary((text) => this.type(text));
      await this.resize();
      this.terminal.focus();
    }
    await this.follow();
  }

  close(): void {
    this.abort.abort();
    this.resized.disconnect();
    clearTimeout(this.resizeTimer);
    this.terminal.dispose();
  }

  /** Continues at the same byte after a lost connection. */
  private async follow(): Promise<void> {
    const { signal } = this.abort;
    let at: number | undefined;
    while (!signal.aborted) {
      try {
        at ??= await this.firstByte();
        const query = queryText({ raw: true, lossless: true, follow: true, from: at });
        const { body } = await open(
          `${this.path}/output${query}`,
          'application/octet-stream',
          signal,
        );
        this.options.onError(undefined);
        const reader = body!.getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          at += value.length;
          // Waits for the terminal, so that a flood does not fill the memory.
          await new Promise<void>((resolve) => this.terminal.write(value, resolve));
        }
        const { status } = await get<{ status: Job['status'] }>(this.path, {}, signal);
        if (isFinal(status)) return void (this.isOver = true);
      } catch (error) {
        if (signal.aborted) return;
        this.options.onError(problemText(error));
      }
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }

  private async firstByte(): Promise<number> {
    const { size } = await get<{ size: number }>(`${this.path}/output`, { maxBytes: 200 });
    return Math.max(0, size - maxReplayBytes);
  }

  /** One call at a time keeps the order. What is typed meanwhile is sent with the next one. */
  private type(text: string): void {
    this.typed += this.options.hasTty ? text : this.lineInput(text);
    this.sending ??= this.send().finally(() => (this.sending = undefined));
  }

  private async send(): Promise<void> {
    while (this.typed !== '' && !this.abort.signal.aborted) {
      const text = this.typed;
      this.typed = '';
      try {
        await post(`${this.path}/input`, { text, waitMs: 0, maxBytes: 200 }, this.abort.signal);
      } catch (error) {
        this.options.onError(problemText(error));
      }
    }
  }

  /** Without a tty nobody echoes: the page does. */
  private lineInput(text: string): string {
    const line = text.replaceAll('\r', '\n');
    this.terminal.write(line);
    return line;
  }

  private scheduleResize(): void {
    clearTimeout(this.resizeTimer);
    this.resizeTimer = setTimeout(() => {
      this.fit.fit();
      void this.resize();
    }, resizeMs);
  }

  private async resize(): Promise<void> {
    const { cols, rows } = this.terminal;
    this.options.onSize(`${cols} × ${rows}`);
    if (!this.options.hasTty || this.isOver) return;
    await post(`${this.path}/resize`, { cols, rows }).catch(() => {});
  }
}

/** As hexadecimal numbers, which the terminal can read. */
function colorsAt(place: HTMLElement): { background: string; color: string } {
  const { backgroundColor, color } = getComputedStyle(place);
  const hex = (text: string) =>
    `#${(text.match(/\d+/g) ?? [])
      .slice(0, 3)
      .map((n) => Number(n).toString(16).padStart(2, '0'))
      .join('')}`;
  return { background: hex(backgroundColor), color: hex(color) };
}

function openLink(uri: string): void {
  if (/^https?:\/\//i.test(uri)) window.open(uri, '_blank', 'noopener,noreferrer');
}

function loadStyles(): void {
  if (document.querySelector(`link[href="${terminalStylesUrl}"]`)) return;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = terminalStylesUrl;
  document.head.append(link);
}
