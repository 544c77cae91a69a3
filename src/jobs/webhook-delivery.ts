// Sends what is due, one commit before and one after each try; a crash between them costs a second try, never a lost one.
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
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
  send: WebhookSender;
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
const sendsAtOnce = 8;
/** While one node sends, the others leave the delivery alone for so long. */
const sendLeaseMs = 60_000;
const keptMs = 7 * 86_400_000;

export class WebhookDelivery {
  private readonly options: DeliveryNeeds;
  private forgotAt = 0;

  constructor(options: DeliveryNeeds) {
    this.options = options;
  }

  async sendDue(): Promise<void> {
    const { store, clock } = this.options;
    for (;;) {
      const now = clock.now();
      const due = await store.read(
        `SELECT d.*, w.url, w.headers, w.secret, w.format FROM deliveries d LEFT JOIN webhooks w ON w.id = d.webhook_id
         WHERE d.status = 'pending' AND d.next_at <= ? ORDER BY d.next_at LIMIT ?`,
        [now, sendsAtOnce],
      );
      if (due.length === 0) break;
      await Promise.all(due.map((row) => this.sendOne(row)));
    }
    await this.forgetOld();
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
      ...(JSON.parse((row.headers as string | null) ?? '{}') as Record<string, string>),
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
    const waitMs = waitsMs[row.tries as number];
    const status = end.ok ? 'delivered' : waitMs === undefined ? 'failed' : 'pending';
    await store.commit([
      {
        sql: 'UPDATE deliveries SET status = ?, next_at = ?, answer = ?, delivered_at = ? WHERE id = ?',
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

const refusalText = ({ code, message, hint }: AppError): string =>
  [`${code}: ${message}`, hint].filter(Boolean).join(' ');
