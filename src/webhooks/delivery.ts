// Sends due webhook deliveries, with one commit before and one after each try. A crash in between repeats a try but never
// loses a delivery.
import type { WebhookRequest } from '../contracts/webhooks.ts';
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeRecordOr } from '../runtime/json.ts';
import type { Log } from '../runtime/log.ts';
import type { Row, Store } from '../store/store.ts';
import type { DeliveryEnd } from './failure.ts';
import { isTriedOnce } from './end-actions.ts';
import type { WebhookSender } from './sender.ts';
import { signWebhook } from './signature.ts';

interface DeliveryDeps {
  store: Store;
  clock: Clock;
  log: Log;
  send: WebhookSender;
  /** Called after each delivery, because another one may be sent now. */
  wake(): void;
  /** Records the result of one try. */
  recordTry(end: DeliveryEnd): Promise<void>;
  secretOf(webhookId: string): Buffer;
  /** Additional headers of a delivery format. */
  headersOf(format: string, message: WebhookRequest): Record<string, string>;
}

/** Delays between tries. After the last try the delivery has failed and can be replayed. */
const retryDelaysMs = [5000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000, 86_400_000];
/** In total and per receiver: a receiver that does not respond delays only its own deliveries. */
const maxSends = 64;
const maxSendsPerReceiver = 8;
/** While one node sends a delivery, other nodes skip it for this long. */
const sendLeaseMs = 60_000;
const retentionMs = 7 * 86_400_000;

export class WebhookDelivery {
  private readonly options: DeliveryDeps;
  private readonly sending = new Map<string, { webhookId: string; ended: Promise<void> }>();
  private deletedOldAt = 0;

  constructor(options: DeliveryDeps) {
    this.options = options;
  }

  /** Starts the deliveries that are due. Sending continues after this resolves. */
  async sendDue(): Promise<void> {
    const { store, clock } = this.options;
    for (let started = -1; this.sending.size > started && this.sending.size < maxSends;) {
      started = this.sending.size;
      // Skips receivers at their limit, so that the query finds deliveries for the others.
      const busy = this.busyReceivers();
      const due = await store.read(dueSql(busy.length), [clock.now(), ...busy, maxSends]);
      for (const row of due) this.start(row);
    }
    await this.deleteOld();
  }

  /** Waits for the deliveries that are being sent. */
  async settled(): Promise<void> {
    await Promise.all([...this.sending.values()].map(({ ended }) => ended));
  }

  private start(row: Row): void {
    const id = row.id as string;
    const webhookId = row.webhook_id as string;
    if (this.sending.has(id) || this.sending.size >= maxSends) return;
    if (this.busyReceivers().includes(webhookId)) return;
    const ended = this.sendOne(row).then(
      () => this.sent(id),
      (error: unknown) => {
        this.sending.delete(id);
        this.options.log.error('failed to send a webhook', { id, error });
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
    return [...counts]
      .filter(([, count]) => count >= maxSendsPerReceiver)
      .map(([webhookId]) => webhookId);
  }

  private async deleteOld(): Promise<void> {
    const { store, clock } = this.options;
    const before = clock.now() - retentionMs;
    if (clock.now() - this.deletedOldAt < retentionMs / 100) return;
    this.deletedOldAt = clock.now();
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
      ...decodeRecordOr<Record<string, string>>(row.headers, {}),
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
      ok = typeof status === 'string' || (status >= 200 && status < 300);
      answer = typeof status === 'string' ? status : `HTTP ${status}`;
    } catch (error) {
      answer = error instanceof AppError ? refusalText(error) : noResponseText(error);
    }
    await this.recordEnd(row, { ok, answer });
  }

  private async recordEnd(row: Row, end: { ok: boolean; answer: string }): Promise<void> {
    const { store, clock } = this.options;
    const isLast = row.url === null || isTriedOnce(row.url as string);
    const waitMs = isLast ? undefined : retryDelaysMs[row.tries as number];
    const status = end.ok ? 'delivered' : waitMs === undefined ? 'failed' : 'pending';
    const answer = end.answer.slice(0, 500);
    await store.commit([
      {
        sql: `UPDATE deliveries SET status = ?, next_at = ?, answer = ?, delivered_at = ? WHERE id = ? AND status = 'pending'`,
        params: [status, clock.now() + (waitMs ?? 0), answer, end.ok ? clock.now() : null, row.id!],
      },
    ]);
    await this.options.recordTry({
      jobId: row.job_id as string,
      webhookId: row.webhook_id as string,
      url: row.url as string | null,
      isOfJob: row.hook_job === row.job_id,
      owner: row.hook_owner as string | null,
      isAccepted: end.ok,
      answer,
      tries: (row.tries as number) + 1,
      nextTryAt: waitMs === undefined ? undefined : clock.now() + waitMs,
    });
  }
}

const dueSql = (busy: number): string => `SELECT d.*, w.url, w.headers, w.secret, w.format,
  w.job_id AS hook_job, w.owner AS hook_owner
  FROM deliveries d LEFT JOIN webhooks w ON w.id = d.webhook_id
  WHERE d.status = 'pending' AND d.next_at <= ?
    ${busy > 0 ? `AND d.webhook_id NOT IN (${Array(busy).fill('?').join(', ')})` : ''}
  ORDER BY d.next_at LIMIT ?`;

const refusalText = ({ code, message, hint }: AppError): string =>
  [`${code}: ${message}`, hint].filter(Boolean).join(' ');

/** `no answer: ECONNREFUSED`. */
function noResponseText(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  const known = cause?.code ?? code;
  return typeof known === 'string' ? `no answer: ${known}` : 'no answer';
}
