// A window on a job's output: a contiguous range of bytes, read in pieces by byte cursor, whatever the size of the whole
// output is. Reading at one end drops pieces at the other.
import { signal } from '@preact/signals';
import { get, open, queryText } from './api.ts';
import { readEvents } from './stream/sse.ts';

/** Lines that are rendered together. Unchanged blocks are not rendered again. */
export interface Block {
  key: number;
  lines: readonly string[];
}

interface Piece {
  from: number;
  next: number;
  blocks: Block[];
  /** Complete lines in this piece. */
  lineCount: number;
  /** The bytes after the last line break, when the piece is the last one. */
  rest: string;
}

interface Reading {
  text: string;
  from: number;
  next: number;
  size: number;
  line?: number;
  omitted?: { reason: string };
}

interface Place {
  id: string;
  attempt?: number | undefined;
  stream?: string | undefined;
}

const pieceBytes = 65_536;
const maxPieces = 16;
/** Short lines: fewer pieces, because each line is an element of the document. */
const maxLines = 8000;
const blockLines = 100;
const countDelayMs = 400;
const encoder = new TextEncoder();

let lastKey = 0;

export class OutputWindow {
  readonly blocks = signal<readonly Block[]>([]);
  readonly rest = signal('');
  readonly size = signal(0);
  readonly from = signal(0);
  readonly next = signal(0);
  /** Number of the first line, if it is known. */
  readonly firstLine = signal<number | undefined>(undefined);
  readonly isFollowing = signal(false);
  readonly isEnded = signal(false);
  readonly isLoaded = signal(false);
  /** Bytes that do not exist any more, as the server describes them. */
  readonly gap = signal<string | undefined>(undefined);
  readonly error = signal<unknown>(undefined);
  /** The line that a search result or an error leads to. */
  readonly mark = signal<{ key: number; index: number } | undefined>(undefined);
  private pieces: Piece[] = [];
  private readonly place: Place;
  private abort = new AbortController();
  private reading: Promise<void> | undefined;
  private countTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(place: Place) {
    this.place = place;
  }

  close(): void {
    this.abort.abort();
    clearTimeout(this.countTimer);
  }

  get isAtStart(): boolean {
    return this.from.value === 0 || this.gap.value !== undefined;
  }

  get isAtEnd(): boolean {
    return this.next.value >= this.size.value;
  }

  /** Shows the end, and what is printed from now on if the job still runs. */
  openEnd(isRunning: boolean): Promise<void> {
    return this.restart(async () => {
      this.replace(await this.read({ mode: 'tail' }));
      if (isRunning) void this.follow();
      else this.isEnded.value = true;
    });
  }

  openStart(): Promise<void> {
    return this.openNear(0);
  }

  /** Shows the output from a position somewhere within a line. */
  openNear(byte: number): Promise<void> {
    return this.restart(async () => {
      this.replace(await this.read({ mode: 'range', from: byte, to: byte + pieceBytes }), byte > 0);
    });
  }

  /** Shows and marks the line that begins at a byte. */
  openAt(byte: number): Promise<void> {
    return this.restart(async () => {
      this.replace(await this.read({ mode: 'range', from: byte, to: byte + pieceBytes }));
      await this.markFirst();
    });
  }

  openLine(line: number): Promise<void> {
    return this.restart(async () => {
      // The beginning of the line, then its surroundings.
      const { from } = await this.read({
        mode: 'range',
        fromLine: line,
        toLine: line,
        maxBytes: 200,
      });
      this.replace(await this.read({ mode: 'range', from, to: from + pieceBytes }));
      this.firstLine.value = line;
      await this.markFirst();
    });
  }

  /** Stops adding to the window while somebody reads. */
  pause(): void {
    if (!this.isFollowing.value) return;
    this.abort.abort();
    this.abort = new AbortController();
    this.isFollowing.value = false;
  }

  readBefore(): Promise<void> {
    return this.once(() => this.prepend());
  }

  readAfter(): Promise<void> {
    return this.once(async () => {
      if (this.isFollowing.value) return;
      const reading = await this.read({ mode: 'since', from: this.next.value });
      this.append(reading.text, reading);
      this.dropAtStart();
      this.publish();
    });
  }

  private async markFirst(): Promise<void> {
    const key = this.blocks.value[0]?.key;
    if (key !== undefined) this.mark.value = { key, index: 0 };
    // Scrolling to the mark may read as well: two reads would show the same lines twice.
    await this.reading;
    await this.readBefore();
  }

  private async prepend(): Promise<void> {
    if (this.isAtStart) return;
    const reading = await this.read({ mode: 'tail', to: this.from.value });
    if (reading.next <= reading.from) {
      this.gap.value = reading.omitted?.reason ?? 'Earlier output does not exist any more.';
      return;
    }
    const first = this.pieces[0];
    const cut = reading.text.lastIndexOf('\n') + 1;
    const carried = reading.text.slice(cut);
    const carriedBytes = encoder.encode(carried).length;
    if (first && carried !== '') this.pieces[0] = withCarried(first, carried, carriedBytes);
    const piece = toPiece(reading.text.slice(0, cut), reading.from, reading.next - carriedBytes);
    this.pieces.unshift(piece);
    if (this.firstLine.value !== undefined) this.firstLine.value -= piece.lineCount;
    this.dropAtEnd();
    this.publish();
    this.scheduleCount();
  }

  private async follow(): Promise<void> {
    const { signal } = this.abort;
    this.isFollowing.value = true;
    const { id, ...rest } = this.place;
    try {
      while (!signal.aborted) {
        const query = queryText({ ...rest, follow: true, raw: true, from: this.next.value });
        const path = `api/jobs/${encodeURIComponent(id)}/output${query}`;
        const { body } = await open(path, 'text/event-stream', signal);
        for await (const events of readEvents(body!)) {
          if (signal.aborted) return;
          for (const { event, data } of events) this.receive(event, JSON.parse(data) as Followed);
          if (events.length > 0) this.publish();
          if (this.isEnded.value) return;
        }
      }
    } catch {
      // A restarted server or a lost connection: the view opens the window again when changes arrive.
      if (!signal.aborted) setTimeout(() => void (signal.aborted || this.follow()), 1000);
    } finally {
      if (this.isEnded.value) this.isFollowing.value = false;
    }
  }

  private receive(event: string, data: Followed): void {
    if (event === 'end') this.isEnded.value = true;
    else if (event === 'skipped') {
      // The reader cannot follow this fast: the window moves, and scrolling up reads what lies between.
      this.pieces = [];
      this.firstLine.value = undefined;
      this.append('', { from: data.to, next: data.to, size: data.to });
      this.scheduleCount();
    } else if (event === 'output') {
      const size = Math.max(this.size.value, data.next);
      this.append(data.text ?? decodeBase64(data.base64 ?? ''), { ...data, size });
      this.dropAtStart();
    }
  }

  private async restart(run: () => Promise<void>): Promise<void> {
    this.abort.abort();
    this.abort = new AbortController();
    this.isFollowing.value = false;
    const { signal } = this.abort;
    try {
      await run();
      this.error.value = undefined;
    } catch (error) {
      if (!signal.aborted) this.error.value = error;
    }
    this.isLoaded.value = true;
  }

  /** Scrolling asks often; one read at a time is enough. */
  private once(run: () => Promise<void>): Promise<void> {
    this.reading ??= run()
      .catch(() => {})
      .finally(() => (this.reading = undefined));
    return this.reading;
  }

  private read(input: Record<string, unknown>): Promise<Reading> {
    const { id, ...rest } = this.place;
    const path = `api/jobs/${encodeURIComponent(id)}/output`;
    return get(path, { ...rest, raw: true, maxBytes: pieceBytes, ...input }, this.abort.signal);
  }

  private replace(reading: Reading, isWithin = false): void {
    this.pieces = [];
    this.gap.value = undefined;
    this.mark.value = undefined;
    this.firstLine.value = reading.from === 0 ? 1 : undefined;
    const cut = isWithin ? reading.text.indexOf('\n') + 1 : 0;
    const from = reading.from + encoder.encode(reading.text.slice(0, cut)).length;
    this.append(reading.text.slice(cut), { ...reading, from });
    this.publish();
    this.scheduleCount();
  }

  private append(text: string, { from, next, size }: Omit<Reading, 'text'>): void {
    this.size.value = Math.max(size, next);
    const last = this.pieces.at(-1);
    if (!last || last.next - last.from > pieceBytes) {
      const rest = last?.rest ?? '';
      const restBytes = encoder.encode(rest).length;
      if (last) {
        last.rest = '';
        last.next -= restBytes;
      }
      this.pieces.push(toPiece(rest + text, from - restBytes, next));
    } else extend(last, text, next);
  }

  private dropAtStart(): void {
    while (this.isTooLong()) {
      const [dropped] = this.pieces.splice(0, 1);
      if (this.firstLine.value !== undefined) this.firstLine.value += dropped!.lineCount;
    }
  }

  private dropAtEnd(): void {
    while (this.isTooLong()) this.pieces.pop();
  }

  private isTooLong(): boolean {
    const lines = this.pieces.reduce((sum, { lineCount }) => sum + lineCount, 0);
    return this.pieces.length > maxPieces || (this.pieces.length > 2 && lines > maxLines);
  }

  private publish(): void {
    this.blocks.value = this.pieces.flatMap(({ blocks }) => blocks);
    this.rest.value = this.pieces.at(-1)?.rest ?? '';
    this.from.value = this.pieces[0]?.from ?? 0;
    this.next.value = this.pieces.at(-1)?.next ?? 0;
    if (this.from.value === 0) this.firstLine.value = 1;
  }

  private scheduleCount(): void {
    if (this.firstLine.value !== undefined || this.countTimer !== undefined) return;
    this.countTimer = setTimeout(() => {
      this.countTimer = undefined;
      void this.countLines();
    }, countDelayMs);
  }

  private async countLines(): Promise<void> {
    if (this.firstLine.value !== undefined) return;
    const from = this.from.value;
    try {
      const range = { mode: 'range', from, to: from + 1, maxBytes: 200, countLines: true };
      const { line } = await this.read(range);
      if (this.from.value === from) this.firstLine.value = line;
      else this.scheduleCount();
    } catch {
      // The output is readable without line numbers.
    }
  }
}

interface Followed {
  from: number;
  next: number;
  to: number;
  text?: string;
  base64?: string;
}

function toPiece(text: string, from: number, next: number): Piece {
  const piece: Piece = { from, next: from, blocks: [], lineCount: 0, rest: '' };
  extend(piece, text, next);
  return piece;
}

function extend(piece: Piece, text: string, next: number): void {
  const lines = (piece.rest + text).split('\n');
  piece.rest = lines.pop()!;
  piece.next = next;
  piece.lineCount += lines.length;
  const last = piece.blocks.at(-1);
  const fill = last ? Math.max(0, blockLines - last.lines.length) : 0;
  if (last && fill > 0 && lines.length > 0)
    piece.blocks[piece.blocks.length - 1] = {
      key: last.key,
      lines: [...last.lines, ...lines.slice(0, fill)],
    };
  for (let at = last ? fill : 0; at < lines.length; at += blockLines)
    piece.blocks.push({ key: ++lastKey, lines: lines.slice(at, at + blockLines) });
}

/** Puts the beginning of a line in front of the piece that has its end. */
function withCarried(piece: Piece, carried: string, bytes: number): Piece {
  const [first, ...others] = piece.blocks;
  const from = piece.from - bytes;
  if (!first) return { ...piece, from, rest: carried + piece.rest };
  const [line = '', ...lines] = first.lines;
  return {
    ...piece,
    from,
    blocks: [{ key: first.key, lines: [carried + line, ...lines] }, ...others],
  };
}

function decodeBase64(text: string): string {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
