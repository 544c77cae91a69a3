// The one connection of a browser to the event stream of all jobs, shared by its tabs. It is open while a tab is visible,
// resumes at its cursor after an interruption, and keeps an auto-started server alive while a hidden tab exists.
import type { Change, FromPage, State, ToPage } from './messages.ts';
import { readEvents } from './sse.ts';

interface Page {
  post(message: ToPage): void;
}

/** Hidden tabs keep the connection for a moment, so that switching tabs does not reconnect. */
const hiddenGraceMs = 20_000;
const minRetryMs = 500;
const maxRetryMs = 15_000;
/** The server sends a comment every 15 s. A longer silence is a dead connection. */
const maxSilenceMs = 40_000;
const keepServerMs = 120_000;

class SessionEnded extends Error {}

export class Hub {
  private readonly pages = new Map<Page, { isVisible: boolean }>();
  private base: string | undefined;
  private cursor: string | undefined;
  private state: State = 'paused';
  private retryAt: number | undefined;
  private connection: AbortController | undefined;
  private retryMs = minRetryMs;
  private pauseTimer: ReturnType<typeof setTimeout> | undefined;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly keepServerTimer: ReturnType<typeof setInterval>;

  constructor() {
    this.keepServerTimer = setInterval(() => void this.keepServer(), keepServerMs);
  }

  receive(page: Page, message: FromPage): void {
    switch (message.type) {
      case 'hello':
        this.base = message.base;
        this.pages.set(page, { isVisible: message.isVisible });
        // A new login may have replaced the session.
        if (this.state === 'ended') this.state = 'paused';
        break;
      case 'visible':
        this.pages.set(page, { isVisible: message.isVisible });
        break;
      case 'retry':
        this.retryMs = minRetryMs;
        if (this.state !== 'live') this.stop('paused');
        break;
      case 'bye':
        this.pages.delete(page);
        break;
    }
    if (message.type === 'hello' && this.cursor !== undefined) page.post({ type: 'cursor' });
    this.update();
    page.post(this.stateMessage());
  }

  close(): void {
    clearInterval(this.keepServerTimer);
    this.pages.clear();
    this.stop('paused');
  }

  private update(): void {
    const isWatched = [...this.pages.values()].some(({ isVisible }) => isVisible);
    clearTimeout(this.pauseTimer);
    if (!isWatched) {
      this.pauseTimer = setTimeout(() => this.stop('paused'), hiddenGraceMs);
      return;
    }
    if (this.connection || this.retryTimer !== undefined || this.state === 'ended') return;
    void this.connect();
  }

  private async connect(): Promise<void> {
    const connection = new AbortController();
    this.connection = connection;
    this.setState(this.cursor === undefined ? 'connecting' : 'reconnecting');
    let silence: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => connection.abort(), maxSilenceMs);
    };
    alive();
    try {
      // Lists that are loaded after this position was taken miss no change.
      this.cursor ??= ((await (await this.open(connection)).json()) as { cursor: string }).cursor;
      this.send({ type: 'cursor' });
      const response = await this.open(connection, this.cursor);
      if (!response.body) return;
      this.retryMs = minRetryMs;
      this.setState('live');
      for await (const events of readEvents(response.body)) {
        alive();
        this.publish(events.filter(({ event }) => event !== 'end' && event !== 'error'));
      }
    } catch (error) {
      if (error instanceof SessionEnded) return this.stop('ended');
      // Network errors, restarts and rejected connections are all followed by another attempt.
    } finally {
      clearTimeout(silence);
    }
    if (this.connection === connection) this.retry();
  }

  private async open({ signal }: AbortController, cursor?: string): Promise<Response> {
    const query = cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`;
    const accept = cursor === undefined ? 'application/json' : 'text/event-stream';
    const url = new URL(`api/jobs/watch${query}`, this.base);
    const response = await fetch(url, { headers: { accept }, signal });
    if (response.status === 401) throw new SessionEnded();
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response;
  }

  private publish(events: { data: string }[]): void {
    if (events.length === 0) return;
    const changes = events.map(({ data }) => JSON.parse(data) as Change);
    this.cursor = changes.at(-1)!.cursor;
    this.send({ type: 'changes', changes });
  }

  private retry(): void {
    this.connection = undefined;
    this.retryAt = Date.now() + this.retryMs;
    this.setState('reconnecting');
    this.retryTimer = setTimeout(() => {
      this.retryTimer = undefined;
      this.update();
    }, this.retryMs);
    this.retryMs = Math.min(this.retryMs * 2, maxRetryMs);
  }

  private stop(state: State): void {
    const { connection } = this;
    this.connection = undefined;
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    connection?.abort();
    this.setState(state);
  }

  private setState(state: State): void {
    this.state = state;
    if (state !== 'reconnecting') this.retryAt = undefined;
    this.send(this.stateMessage());
  }

  private stateMessage(): ToPage {
    const { state, retryAt } = this;
    return { type: 'state', state, ...(retryAt === undefined ? {} : { retryAt }) };
  }

  private send(message: ToPage): void {
    for (const page of this.pages.keys()) page.post(message);
  }

  /** An auto-started server stops when no connection is open and no session is used. */
  private async keepServer(): Promise<void> {
    if (this.connection || this.pages.size === 0 || this.state === 'ended') return;
    await fetch(new URL('api/me', this.base)).catch(() => {});
  }
}
