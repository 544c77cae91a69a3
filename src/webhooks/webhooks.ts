// Creates webhook deliveries from the event log, which serves as the outbox. A stored mark records how far deliveries were
// created. Deliveries and mark change in one transaction, so a crash loses nothing and two nodes create nothing twice.
import { AppError } from '../errors.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import { decodeJsonOr, decodeRecordOr } from '../runtime/json.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { EventRow, Step, Store } from '../store/store.ts';
import type { Job } from '../jobs/job.ts';
import { randomId } from '../runtime/id.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { viewJob } from '../jobs/view.ts';
import { recordDelivery, webhookEvents } from './failure.ts';
import {
  deliveryFromRow,
  webhookFromRow,
  type Delivery,
  type Webhook,
  type WebhookKey,
} from './rows.ts';
import type { WebhookFormat } from '../contracts/webhooks.ts';
import type { WebhookSender } from './sender.ts';
import { WebhookDelivery } from './delivery.ts';
import { checkReceiver, isAction, type EndCommands } from './end-actions.ts';

interface WebhooksOptions {
  jobs: Jobs;
  store: Store;
  clock: Clock;
  log: Log;
  send: WebhookSender;
  /** Commands that subscriptions may start. */
  commands?: EndCommands;
  /** Throws for an address that `send` would refuse. */
  check?(url: string): void;
  /** The derived secret of a subscription. It is not stored. */
  secretOf(webhookId: string): Buffer;
}

const pageSize = 500;
const subscriptionCheckMs = 5000;

interface NewWebhook {
  owner: string;
  url: string;
  events: readonly string[];
  jobId?: string;
  format?: string;
  headers?: Record<string, string> | undefined;
  secret?: string | undefined;
  /** The address may be an action: `notify` or `run:NAME`. */
  allowsActions?: true;
  /** The webhook ends with this key. */
  key?: WebhookKey | undefined;
}

export class Webhooks implements Service {
  readonly name = 'webhooks';
  private readonly options: WebhooksOptions;
  private readonly formats = new Map<string, WebhookFormat>();
  private readonly deliveryLoop: Loop;
  private readonly sendLoop: Loop;
  private readonly delivery: WebhookDelivery;
  private off = () => {};
  /** Without subscriptions the log is not read. Checked again periodically, because other nodes may add one. */
  private subscribed: { value: boolean; at: number } | undefined;

  constructor(options: WebhooksOptions) {
    this.options = options;
    this.delivery = new WebhookDelivery({
      ...options,
      wake: () => this.sendLoop.wake(),
      recordTry: (end) => recordDelivery(options, end),
      headersOf: (format, message) => this.formats.get(format)?.headers?.(message) ?? {},
    });
    const { clock, log } = options;
    this.deliveryLoop = new Loop({
      name: 'webhook deliveries',
      everyMs: 5000,
      clock,
      log,
      run: () => this.createDeliveries(),
    });
    this.sendLoop = new Loop({
      name: 'webhook send',
      everyMs: 1000,
      clock,
      log,
      run: () => this.delivery.sendDue(),
    });
  }

  addFormat(format: WebhookFormat): void {
    this.formats.set(format.name, format);
  }

  findFormat(name: string): WebhookFormat | undefined {
    return this.formats.get(name);
  }

  async start(): Promise<void> {
    this.off = this.options.store.onCommit(() => {
      if (this.cachedSubscribed() !== false) this.deliveryLoop.wake();
    });
    await this.deliveryLoop.start();
    await this.sendLoop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.deliveryLoop.stop();
    await this.sendLoop.stop();
    await this.delivery.settled();
  }

  /** Steps that add a subscription to another transaction, such as a submission with a webhook. */
  plan(request: NewWebhook): { webhook: Webhook; steps: Step[] } {
    checkReceiver(request.url, request.allowsActions ? this.options.commands : undefined);
    const webhook: Webhook = {
      id: randomId('hook_', 16),
      owner: request.owner,
      url: request.url,
      events: [...request.events],
      jobId: request.jobId ?? null,
      format: request.format ?? 'errand',
      createdAt: this.options.clock.now(),
      keyId: request.key?.id ?? null,
      endsAt: request.key?.expiresAt ?? null,
    };
    const step: Step = {
      sql: `INSERT INTO webhooks (id, owner, url, events, job_id, format, created_at, headers, secret, key_id, ends_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        webhook.id,
        webhook.owner,
        webhook.url,
        JSON.stringify(webhook.events),
        webhook.jobId,
        webhook.format,
        webhook.createdAt,
        request.headers ? JSON.stringify(request.headers) : null,
        request.secret ?? null,
        webhook.keyId,
        webhook.endsAt,
      ],
    };
    // Set before the commit: a check in between would not see the subscription and would be cached.
    this.subscribed = { value: true, at: webhook.createdAt };
    // The first subscription moves the mark to the newest event, because earlier events have no subscriber.
    const begin: Step = {
      sql: `UPDATE marks SET value = (SELECT coalesce(max(cursor), 0) FROM events)
            WHERE name = 'webhooks' AND NOT EXISTS (SELECT 1 FROM webhooks)`,
    };
    return { webhook, steps: [begin, step] };
  }

  /**
   * A step that adds a message which is not a job event, such as a crawled page. `name` distinguishes it from other
   * messages of the job.
   */
  message(message: {
    webhookId: string;
    jobId: string;
    event: string;
    name: string;
    body: unknown;
  }): Step {
    const { webhookId, jobId, event, name, body } = message;
    const now = this.options.clock.now();
    return {
      sql: `INSERT INTO deliveries (id, webhook_id, job_id, event, body, status, tries, next_at, created_at)
            VALUES (?, ?, ?, ?, ?, 'pending', 0, ?, ?) ON CONFLICT DO NOTHING`,
      // The id identifies message and subscription, so it is the same for every try.
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
  async listForJob(jobId: string): Promise<Webhook[]> {
    const rows = await this.options.store.read('SELECT * FROM webhooks WHERE job_id = ?', [jobId]);
    return rows.map(webhookFromRow);
  }

  /** Throws for a receiver that could never be reached. */
  check(url: string): void {
    checkReceiver(url, this.options.commands ?? {});
    if (!isAction(url)) this.options.check?.(url);
  }

  async create(request: NewWebhook): Promise<Webhook> {
    const { webhook, steps } = this.plan(request);
    this.check(request.url);
    await this.options.store.commit(steps);
    return webhook;
  }

  async list(owner: string | undefined): Promise<Webhook[]> {
    const rows = await this.options.store.read(
      `SELECT * FROM webhooks WHERE ${owner === undefined ? '1 = 1' : 'owner = ?'} ORDER BY created_at, id LIMIT 1000`,
      owner === undefined ? [] : [owner],
    );
    return rows.map(webhookFromRow).filter((hook) => this.isOpen(hook));
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

  /** The secret the caller chose for a subscription, if any. */
  async findSecret(id: string): Promise<string | undefined> {
    const [row] = await this.options.store.read<{ secret: string | null }>(
      'SELECT secret FROM webhooks WHERE id = ?',
      [id],
    );
    return row?.secret ?? undefined;
  }

  /** Replaces the secret immediately, even for pending deliveries. */
  async setSecret(id: string, secret: string): Promise<void> {
    const sql = 'UPDATE webhooks SET secret = ? WHERE id = ?';
    await this.options.store.commit([{ sql, params: [secret, id] }]);
  }

  async deliveries(
    webhookId: string,
    limit: number,
    before?: number,
  ): Promise<{ deliveries: Delivery[]; next: number | undefined; cursors: number[] }> {
    const rows = await this.options.store.read(
      'SELECT * FROM deliveries WHERE webhook_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
      [webhookId, before ?? Number.MAX_SAFE_INTEGER, limit + 1],
    );
    const shown = rows.slice(0, limit);
    return {
      deliveries: shown.map(deliveryFromRow),
      next: rows.length > limit ? (shown.at(-1)!.seq as number) : undefined,
      cursors: shown.map((row) => row.seq as number),
    };
  }

  /** Sends a delivery again with the same id, so that receivers can ignore duplicates. */
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
    if (!row) throw new AppError('notFound', `Delivery ${id} does not exist.`);
    return deliveryFromRow(row);
  }

  async find(id: string): Promise<Webhook | undefined> {
    const [row] = await this.options.store.read('SELECT * FROM webhooks WHERE id = ?', [id]);
    const hook = row && webhookFromRow(row);
    return hook && this.isOpen(hook) ? hook : undefined;
  }

  /** False once the key that created it has expired. */
  private isOpen({ endsAt }: Webhook, at = this.options.clock.now()): boolean {
    return endsAt === null || at < endsAt;
  }

  async findDelivery(id: string): Promise<Delivery | undefined> {
    const [row] = await this.options.store.read('SELECT * FROM deliveries WHERE id = ?', [id]);
    return row && deliveryFromRow(row);
  }

  /** Whether deliveries are pending. Then the server is not idle. */
  async busy(): Promise<boolean> {
    const [row] = await this.options.store.read(
      `SELECT 1 AS one FROM deliveries WHERE status = 'pending' LIMIT 1`,
    );
    return row !== undefined;
  }

  private async createDeliveries(): Promise<void> {
    const { store } = this.options;
    if (!(await this.hasSubscriptions())) return;
    for (;;) {
      const [mark] = await store.read<{ value: number }>(
        `SELECT value FROM marks WHERE name = 'webhooks'`,
      );
      const events = await store.events(mark!.value, pageSize);
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
      // No delivery to create: the mark stays, because reading a few events again is cheaper than a commit.
      if (steps.length === 1 && events.length < pageSize) return;
      if ((await store.commit(steps)).applied && steps.length > 1) this.sendLoop.wake();
      if (events.length < pageSize) return;
    }
  }

  private async hasSubscriptions(): Promise<boolean> {
    const known = this.cachedSubscribed();
    if (known !== undefined) return known;
    const { store, clock } = this.options;
    const rows = await store.read('SELECT 1 AS one FROM webhooks LIMIT 1');
    this.subscribed = { value: rows.length > 0, at: clock.now() };
    return this.subscribed.value;
  }

  /** The cached answer, or undefined if it is outdated. Most homes have no webhooks. */
  private cachedSubscribed(): boolean | undefined {
    if (!this.subscribed) return undefined;
    const isFresh =
      this.subscribed.value || this.options.clock.now() - this.subscribed.at < subscriptionCheckMs;
    return isFresh ? this.subscribed.value : undefined;
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
    if (webhookEvents.has(event.type)) return [];
    const wanted = hooks.filter(
      (hook) =>
        (hook.jobId === null || hook.jobId === event.jobId) &&
        event.at >= hook.createdAt &&
        this.isOpen(hook, event.at) &&
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
      const message = { webhookId: hook.id, jobId: job.id, event: event.type, body };
      steps.push(this.message({ ...message, name: String(event.n) }));
    }
    return steps;
  }

  private async body(hook: Webhook, job: Job, event: EventRow): Promise<unknown> {
    const format = this.formats.get(hook.format);
    const { jobs, clock } = this.options;
    if (format) {
      const kind = format.needsFacts ? jobs.findKind(job.kind) : undefined;
      const facts = (await kind?.webhookFacts?.(job, hook.owner)) ?? {};
      const { type, at } = event;
      return format.body({ job, event: { type, at, data: decodeRecordOr(event.data, {}) }, facts });
    }
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
