// Sends what is due, one commit before and one after each try; a crash between them costs a second try, never a lost one.
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { Log } from '../runtime/log.ts';
import type { Row, Store } from '../store/store.ts';
import { signWebhook } from './webhook-signature.ts';

/** Sends one request; answers the status, throws when there was no answer. */
export type WebhookSender = (request: {
  url: string;
  headers: Record<string, string>;
  body: string;
}) => Promise<number>;

export interface DeliveryNeeds {
  store: Store;
  clock: Clock;
  log: Log;
  send: WebhookSender;
  /** One was sent: there is room for another. */
  wake(): void;
  secretOf(webhookId: string): Buffer;
  /** Headers of the format a delivery has. */
  headersOf(format: string, message: WebhookMessage): Record<string, string>;
}

export interface WebhookMessage {
  jobId: string;
  event: string;
  body: string;
  /** Given by the caller; undefined: only the derived one signs. */
  secret: string | undefined;
}

/** 0 s, 5 s, 30 s, 2 min, 10 min, 1 h, 6 h, 24 h: then it is given up and can be replayed. */
const waitsMs = [5000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000, 86_400_000];
/** In all, and to one receiver: whoever does not answer holds up only what is for them. */
const sendsAtOnce = 64;
const sendsToOne = 8;
/** While one node sends, the others leave the delivery alone for so long. */
const sendLeaseMs = 60_000;
const keptMs = 7 * 86_400_000;

export class WebhookDelivery {
  private readonly options: DeliveryNeeds;
  private readonly sending = new Map<string, { webhookId: string; ended: Promise<void> }>();
  private forgotAt = 0;

  constructor(options: DeliveryNeeds) {
    this.options = options;
  }

  /** Starts what is due and may be sent now; it goes on after this resolves. */
  async sendDue(): Promise<void> {
    const { store, clock } = this.options;
    for (let started = -1; this.sending.size > started && this.sending.size < sendsAtOnce;) {
      started = this.sending.size;
      // Those of whom enough is under way stand aside, so that the next look finds the others.
      const busy = this.busyReceivers();
      const due = await store.read(dueSql(busy.length), [clock.now(), ...busy, sendsAtOnce]);
      for (const row of due) this.start(row);
    }
    await this.forgetOld();
  }

  /** Waits for what is being sent. */
  async settled(): Promise<void> {
    await Promise.all([...this.sending.values()].map(({ ended }) => ended));
  }

  private start(row: Row): void {
    const id = row.id as string;
    const webhookId = row.webhook_id as string;
    if (this.sending.has(id) || this.sending.size >= sendsAtOnce) return;
    if (this.busyReceivers().includes(webhookId)) return;
    const ended = this.sendOne(row).then(
      () => this.sent(id),
      (error: unknown) => {
        this.sending.delete(id);
        this.options.log.error('a webhook could not be sent', { id, error });
      },
    );
    this.sending.set(id, { webhookId, ended });
  }

  private sent(id: string): void {
    this.sending.delete(id);
    this.options.wake();
  }

  private busyReceivers(): string[] {
    const counts = new Map<string, number>();
    for (const { webhookId } of this.sending.values())
      counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
    return [...counts].filter(([, count]) => count >= sendsToOne).map(([webhookId]) => webhookId);
  }

  private async forgetOld(): Promise<void> {
    const { store, clock } = this.options;
    const before = clock.now() - keptMs;
    if (clock.now() - this.forgotAt < keptMs / 100) return;
    this.forgotAt = clock.now();
    await store.commit([
      {
        sql: `DELETE FROM deliveries WHERE status <> 'pending' AND created_at < ?`,
        params: [before],
      },
    ]);
  }

  private async sendOne(row: Row): Promise<void> {
    const { store, clock, send, secretOf } = this.options;
    const id = row.id as string;
    const mine = await store.commit([
      {
        sql: `UPDATE deliveries SET next_at = ?, tries = tries + 1 WHERE id = ? AND status = 'pending' AND next_at = ?`,
        params: [clock.now() + sendLeaseMs, id, row.next_at!],
        expect: 1,
      },
    ]);
    if (!mine.applied) return;
    const body = row.body as string;
    const timestamp = Math.floor(clock.now() / 1000);
    const headers = {
      ...decodeJsonOr<Record<string, string>>(row.headers, {}),
      'content-type': 'application/json',
      ...this.options.headersOf((row.format as string | null) ?? '', {
        jobId: row.job_id as string,
        event: row.event as string,
        body,
        secret: (row.secret as string | null) ?? undefined,
      }),
      ...signWebhook({ id, timestamp, body, secret: secretOf(row.webhook_id as string) }),
    };
    let answer: string;
    let ok = false;
    try {
      const status = row.url === null ? 410 : await send({ url: row.url as string, headers, body });
      ok = status >= 200 && status < 300;
      answer = `HTTP ${status}`;
    } catch (error) {
      answer = error instanceof AppError ? refusalText(error) : 'no answer';
    }
    await this.note(row, { ok, answer });
  }

  private async note(row: Row, end: { ok: boolean; answer: string }): Promise<void> {
    const { store, clock } = this.options;
    const waitMs = row.url === null ? undefined : waitsMs[row.tries as number];
    const status = end.ok ? 'delivered' : waitMs === undefined ? 'failed' : 'pending';
    await store.commit([
      {
        sql: `UPDATE deliveries SET status = ?, next_at = ?, answer = ?, delivered_at = ? WHERE id = ? AND status = 'pending'`,
        params: [
          status,
          clock.now() + (waitMs ?? 0),
          end.answer.slice(0, 500),
          end.ok ? clock.now() : null,
          row.id!,
        ],
      },
    ]);
  }
}

const dueSql = (busy: number): string => `SELECT d.*, w.url, w.headers, w.secret, w.format
  FROM deliveries d LEFT JOIN webhooks w ON w.id = d.webhook_id
  WHERE d.status = 'pending' AND d.next_at <= ?
    ${busy > 0 ? `AND d.webhook_id NOT IN (${Array(busy).fill('?').join(', ')})` : ''}
  ORDER BY d.next_at LIMIT ?`;

const refusalText = ({ code, message, hint }: AppError): string =>
  [`${code}: ${message}`, hint].filter(Boolean).join(' ');
