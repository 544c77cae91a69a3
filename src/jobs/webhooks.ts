// Webhooks. The event log is the outbox: an event is committed with its change, a mark says how far deliveries were made
// from it, and both move in one transaction. So nothing is missed by a crash, and nothing is queued twice by two nodes.
import { AppError } from '../errors.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { EventRow, Step, Store } from '../store/store.ts';
import { randomId, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { viewJob } from './view.ts';
import { deliveryFromRow, webhookFromRow, type Delivery, type Webhook } from './webhook.ts';
import { WebhookDelivery, type WebhookMessage, type WebhookSender } from './webhook-delivery.ts';

export type WebhookFormat = (job: Job, event: EventRow, webhook: Webhook) => unknown;
export type WebhookHeaders = (message: WebhookMessage) => Record<string, string>;

export interface WebhooksOptions {
  jobs: Jobs;
  store: Store;
  clock: Clock;
  log: Log;
  send: WebhookSender;
  /** Throws for an address that `send` would refuse anyway. */
  check?(url: string): void;
  /** A secret per subscription, derived and not stored. */
  secretOf(webhookId: string): Buffer;
}

const page = 500;
const anyMs = 5000;

interface NewWebhook {
  owner: string;
  url: string;
  events: readonly string[];
  jobId?: string;
  format?: string;
  headers?: Record<string, string> | undefined;
  secret?: string | undefined;
}

export class Webhooks implements Service {
  readonly name = 'webhooks';
  private readonly options: WebhooksOptions;
  private readonly formats = new Map<string, WebhookFormat>();
  private readonly headers = new Map<string, WebhookHeaders>();
  private readonly pumpLoop: Loop;
  private readonly sendLoop: Loop;
  private readonly delivery: WebhookDelivery;
  private off = () => {};
  /** Without any subscription the log is not read at all; looked up anew now and then for other nodes' sake. */
  private any: { value: boolean; at: number } | undefined;

  constructor(options: WebhooksOptions) {
    this.options = options;
    this.delivery = new WebhookDelivery({
      ...options,
      wake: () => this.sendLoop.wake(),
      headersOf: (format, message) => this.headers.get(format)?.(message) ?? {},
    });
    const { clock, log } = options;
    this.pumpLoop = new Loop({
      name: 'webhook pump',
      everyMs: 5000,
      clock,
      log,
      run: () => this.pump(),
    });
    this.sendLoop = new Loop({
      name: 'webhook send',
      everyMs: 1000,
      clock,
      log,
      run: () => this.delivery.sendDue(),
    });
  }

  addFormat(name: string, format: WebhookFormat, headers?: WebhookHeaders): void {
    this.formats.set(name, format);
    if (headers) this.headers.set(name, headers);
  }

  async start(): Promise<void> {
    this.off = this.options.store.onCommit(() => {
      if (this.knownAny() !== false) this.pumpLoop.wake();
    });
    await this.pumpLoop.start();
    await this.sendLoop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.pumpLoop.stop();
    await this.sendLoop.stop();
    await this.delivery.settled();
  }

  /** Steps that add a subscription to somebody's transaction (a submit with a webhook of its own). */
  plan(wish: NewWebhook): { webhook: Webhook; steps: Step[] } {
    checkUrl(wish.url);
    const webhook: Webhook = {
      id: randomId('hook_', 16),
      owner: wish.owner,
      url: wish.url,
      events: [...wish.events],
      jobId: wish.jobId ?? null,
      format: wish.format ?? 'errand',
      createdAt: this.options.clock.now(),
    };
    const step: Step = {
      sql: `INSERT INTO webhooks (id, owner, url, events, job_id, format, created_at, headers, secret)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        webhook.id,
        webhook.owner,
        webhook.url,
        JSON.stringify(webhook.events),
        webhook.jobId,
        webhook.format,
        webhook.createdAt,
        wish.headers ? JSON.stringify(wish.headers) : null,
        wish.secret ?? null,
      ],
    };
    // Before it is committed: a look that came in between would not see it, and be believed for a while.
    this.any = { value: true, at: webhook.createdAt };
    // The first subscription starts from the present: what happened before is nobody's.
    const begin: Step = {
      sql: `UPDATE marks SET value = (SELECT coalesce(max(cursor), 0) FROM events)
            WHERE name = 'webhooks' AND NOT EXISTS (SELECT 1 FROM webhooks)`,
    };
    return { webhook, steps: [begin, step] };
  }

  /**
   * A message that is no event of the job (a page of a crawl), for the transaction in which it became true. `name`
   * tells it from the job's other messages.
   */
  message(wish: {
    webhookId: string;
    jobId: string;
    event: string;
    name: string;
    body: unknown;
  }): Step {
    const { webhookId, jobId, event, name, body } = wish;
    const now = this.options.clock.now();
    return {
      sql: `INSERT INTO deliveries (id, webhook_id, job_id, event, body, status, tries, next_at, created_at)
            VALUES (?, ?, ?, ?, ?, 'pending', 0, ?, ?) ON CONFLICT DO NOTHING`,
      // The id names message and subscription, so a receiver sees the same one for every try.
      params: [
        `msg_${webhookId.slice(5)}_${jobId.slice(4)}_${name}`,
        webhookId,
        jobId,
        event,
        JSON.stringify(body),
        now,
        now,
      ],
    };
  }

  /** Subscriptions to one job. */
  async ofJob(jobId: string): Promise<Webhook[]> {
    const rows = await this.options.store.read('SELECT * FROM webhooks WHERE job_id = ?', [jobId]);
    return rows.map(webhookFromRow);
  }

  async create(wish: NewWebhook): Promise<Webhook> {
    const { webhook, steps } = this.plan(wish);
    this.options.check?.(wish.url);
    await this.options.store.commit(steps);
    return webhook;
  }

  async list(owner: string | undefined): Promise<Webhook[]> {
    const rows = await this.options.store.read(
      `SELECT * FROM webhooks WHERE ${owner === undefined ? '1 = 1' : 'owner = ?'} ORDER BY created_at, id LIMIT 1000`,
      owner === undefined ? [] : [owner],
    );
    return rows.map(webhookFromRow);
  }

  async remove(id: string): Promise<void> {
    await this.options.store.commit([
      { sql: 'DELETE FROM webhooks WHERE id = ?', params: [id] },
      {
        sql: `UPDATE deliveries SET status = 'failed', answer = 'webhook deleted' WHERE webhook_id = ? AND status = 'pending'`,
        params: [id],
      },
    ]);
  }

  secret(id: string): string {
    return `whsec_${this.options.secretOf(id).toString('base64')}`;
  }

  /** The secret that a subscription was given, where it was given one. */
  async givenSecret(id: string): Promise<string | undefined> {
    const [row] = await this.options.store.read<{ secret: string | null }>(
      'SELECT secret FROM webhooks WHERE id = ?',
      [id],
    );
    return row?.secret ?? undefined;
  }

  /** The one before it signs nothing any more, not even what waits to be sent. */
  async giveSecret(id: string, secret: string): Promise<void> {
    const sql = 'UPDATE webhooks SET secret = ? WHERE id = ?';
    await this.options.store.commit([{ sql, params: [secret, id] }]);
  }

  async deliveries(
    webhookId: string,
    limit: number,
    before?: number,
  ): Promise<{ deliveries: Delivery[]; next: number | undefined }> {
    const rows = await this.options.store.read(
      'SELECT * FROM deliveries WHERE webhook_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
      [webhookId, before ?? Number.MAX_SAFE_INTEGER, limit + 1],
    );
    const shown = rows.slice(0, limit);
    return {
      deliveries: shown.map(deliveryFromRow),
      next: rows.length > limit ? (shown.at(-1)!.seq as number) : undefined,
    };
  }

  /** Sends one again, with the same id, so that a receiver that knows it can leave it. */
  async replay(id: string): Promise<Delivery> {
    const now = this.options.clock.now();
    await this.options.store.commit([
      {
        sql: `UPDATE deliveries SET status = 'pending', tries = 0, next_at = ? WHERE id = ?`,
        params: [now, id],
      },
    ]);
    this.sendLoop.wake();
    const [row] = await this.options.store.read('SELECT * FROM deliveries WHERE id = ?', [id]);
    if (!row) throw new AppError('notFound', `There is no delivery ${id}.`);
    return deliveryFromRow(row);
  }

  async find(id: string): Promise<Webhook | undefined> {
    const [row] = await this.options.store.read('SELECT * FROM webhooks WHERE id = ?', [id]);
    return row && webhookFromRow(row);
  }

  async findDelivery(id: string): Promise<Delivery | undefined> {
    const [row] = await this.options.store.read('SELECT * FROM deliveries WHERE id = ?', [id]);
    return row && deliveryFromRow(row);
  }

  /** Something is still to be sent: a server with this is not idle. */
  async busy(): Promise<boolean> {
    const [row] = await this.options.store.read(
      `SELECT 1 AS one FROM deliveries WHERE status = 'pending' LIMIT 1`,
    );
    return row !== undefined;
  }

  private async pump(): Promise<void> {
    const { store } = this.options;
    if (!(await this.hasAny())) return;
    for (;;) {
      const [mark] = await store.read<{ value: number }>(
        `SELECT value FROM marks WHERE name = 'webhooks'`,
      );
      const events = await store.events(mark!.value, page);
      if (events.length === 0) return;
      const hooks = await this.hooksFor(events);
      const steps: Step[] = [
        {
          sql: `UPDATE marks SET value = ? WHERE name = 'webhooks' AND value = ?`,
          params: [events.at(-1)!.cursor, mark!.value],
          expect: 1,
        },
      ];
      for (const event of events) steps.push(...(await this.deliveriesOf(event, hooks)));
      // Nobody to tell: the mark need not move for a few events, which the next page reads again for nothing.
      if (steps.length === 1 && events.length < page) return;
      if ((await store.commit(steps)).applied && steps.length > 1) this.sendLoop.wake();
      if (events.length < page) return;
    }
  }

  private async hasAny(): Promise<boolean> {
    const known = this.knownAny();
    if (known !== undefined) return known;
    const { store, clock } = this.options;
    const rows = await store.read('SELECT 1 AS one FROM webhooks LIMIT 1');
    this.any = { value: rows.length > 0, at: clock.now() };
    return this.any.value;
  }

  /** Whether anybody subscribed, as far as it was looked up lately: most homes have no webhooks. */
  private knownAny(): boolean | undefined {
    if (!this.any) return undefined;
    const isFresh = this.any.value || this.options.clock.now() - this.any.at < anyMs;
    return isFresh ? this.any.value : undefined;
  }

  private async hooksFor(events: readonly EventRow[]): Promise<Webhook[]> {
    const ids = [...new Set(events.map(({ jobId }) => jobId))];
    const rows = await this.options.store.read(
      `SELECT * FROM webhooks WHERE job_id IS NULL OR job_id IN (${ids.map(() => '?').join(', ')})`,
      ids,
    );
    return rows.map(webhookFromRow);
  }

  private async deliveriesOf(event: EventRow, hooks: readonly Webhook[]): Promise<Step[]> {
    const wanted = hooks.filter(
      (hook) =>
        (hook.jobId === null || hook.jobId === event.jobId) &&
        event.at >= hook.createdAt &&
        (hook.events.includes('*') || hook.events.includes(event.type)),
    );
    if (wanted.length === 0) return [];
    const { jobs } = this.options;
    const job = await jobs.ledger.find(event.jobId);
    if (!job) return [];
    const steps: Step[] = [];
    const audience = new Set([
      '*',
      job.owner,
      ...((await jobs.findKind(job.kind)?.audience?.(job)) ?? []),
    ]);
    for (const hook of wanted.filter(({ owner, jobId }) => jobId !== null || audience.has(owner))) {
      const body = await this.body(hook, job, event);
      const wish = { webhookId: hook.id, jobId: job.id, event: event.type, body };
      steps.push(this.message({ ...wish, name: String(event.n) }));
    }
    return steps;
  }

  private async body(hook: Webhook, job: Job, event: EventRow): Promise<unknown> {
    const format = this.formats.get(hook.format);
    if (format) return format(job, event, hook);
    const { jobs, clock } = this.options;
    return {
      type: `job.${event.type}`,
      timestamp: isoTime(event.at),
      data: {
        event: { n: event.n, type: event.type, data: decodeJsonOr<unknown>(event.data, null) },
        job: await viewJob(jobs, job, clock.now()),
      },
    };
  }
}

function checkUrl(url: string): void {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return;
  throw new AppError('invalidInput', `${url.slice(0, 200)} is not an http(s) address.`, {
    hint: 'Give a whole one: https://example.com/hook.',
  });
}
