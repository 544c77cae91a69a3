// Webhooks. The event log is the outbox: an event is committed with its change, a mark says how far deliveries were made
// from it, and both move in one transaction. So nothing is missed by a crash, and nothing is queued twice by two nodes.
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { EventRow, Migration, Row, Step, Store } from '../store/store.ts';
import { randomId, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { viewJob } from './view.ts';
import { signWebhook } from './webhook-signature.ts';

export const webhookMigrations: Migration[] = [
  {
    id: 'webhooks/1',
    statements: ({ int, serial, strict }) => [
      `CREATE TABLE webhooks (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, url TEXT NOT NULL, events TEXT NOT NULL, job_id TEXT,
        format TEXT NOT NULL, created_at ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX webhooks_job ON webhooks (job_id) WHERE job_id IS NOT NULL',
      `CREATE TABLE deliveries (
        seq ${serial}, id TEXT NOT NULL UNIQUE, webhook_id TEXT NOT NULL, job_id TEXT NOT NULL, event TEXT NOT NULL,
        body TEXT NOT NULL, status TEXT NOT NULL, tries ${int} NOT NULL, next_at ${int} NOT NULL,
        answer TEXT, created_at ${int} NOT NULL, delivered_at ${int}
      ) ${strict}`,
      `CREATE INDEX deliveries_due ON deliveries (next_at) WHERE status = 'pending'`,
      'CREATE INDEX deliveries_webhook ON deliveries (webhook_id, seq)',
      `CREATE TABLE marks (name TEXT PRIMARY KEY, value ${int} NOT NULL) ${strict}`,
      `INSERT INTO marks (name, value) VALUES ('webhooks', 0)`,
    ],
  },
];

export interface Webhook {
  id: string;
  owner: string;
  url: string;
  /** Event types, or `*`. */
  events: string[];
  jobId: string | null;
  /** The shape of the body: `errand`, or one a kind added for its dialect. */
  format: string;
  createdAt: number;
}

export interface Delivery {
  id: string;
  webhookId: string;
  jobId: string;
  event: string;
  status: 'pending' | 'delivered' | 'failed';
  tries: number;
  nextAt: number;
  answer: string | null;
  createdAt: number;
  deliveredAt: number | null;
}

/** Sends one request; answers the status, throws when there was no answer. */
export type WebhookSender = (request: {
  url: string;
  headers: Record<string, string>;
  body: string;
}) => Promise<number>;

export type WebhookFormat = (job: Job, event: EventRow) => unknown;

export interface WebhooksOptions {
  jobs: Jobs;
  store: Store;
  clock: Clock;
  log: Log;
  send: WebhookSender;
  /** A secret per subscription, derived and not stored. */
  secretOf(webhookId: string): Buffer;
}

/** 0 s, 5 s, 30 s, 2 min, 10 min, 1 h, 6 h, 24 h: then it is given up and can be replayed. */
const waitsMs = [5000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000, 86_400_000];
const page = 500;
const sendsAtOnce = 8;
/** While one node sends, the others leave the delivery alone for so long. */
const sendLeaseMs = 60_000;
const anyMs = 5000;
const keptMs = 7 * 86_400_000;

export class Webhooks implements Service {
  readonly name = 'webhooks';
  private readonly options: WebhooksOptions;
  private readonly formats = new Map<string, WebhookFormat>();
  private readonly pumpLoop: Loop;
  private readonly sendLoop: Loop;
  private off = () => {};
  private forgotAt = 0;
  /** Without any subscription the log is not read at all; looked up anew now and then for other nodes' sake. */
  private any: { value: boolean; at: number } | undefined;

  constructor(options: WebhooksOptions) {
    this.options = options;
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
      run: () => this.sendDue(),
    });
  }

  addFormat(name: string, format: WebhookFormat): void {
    this.formats.set(name, format);
  }

  async start(): Promise<void> {
    this.off = this.options.store.onCommit(() => this.pumpLoop.wake());
    await this.pumpLoop.start();
    await this.sendLoop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.pumpLoop.stop();
    await this.sendLoop.stop();
  }

  /** Steps that add a subscription to somebody's transaction (a submit with a webhook of its own). */
  plan(wish: {
    owner: string;
    url: string;
    events: readonly string[];
    jobId?: string;
    format?: string;
  }): { webhook: Webhook; steps: Step[] } {
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
      sql: 'INSERT INTO webhooks (id, owner, url, events, job_id, format, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
      params: [
        webhook.id,
        webhook.owner,
        webhook.url,
        JSON.stringify(webhook.events),
        webhook.jobId,
        webhook.format,
        webhook.createdAt,
      ],
    };
    this.any = undefined;
    // The first subscription starts from the present: what happened before is nobody's.
    const begin: Step = {
      sql: `UPDATE marks SET value = (SELECT coalesce(max(cursor), 0) FROM events)
            WHERE name = 'webhooks' AND NOT EXISTS (SELECT 1 FROM webhooks)`,
    };
    return { webhook, steps: [begin, step] };
  }

  async create(wish: {
    owner: string;
    url: string;
    events: readonly string[];
    jobId?: string;
  }): Promise<Webhook> {
    const { webhook, steps } = this.plan(wish);
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
    const { store, clock } = this.options;
    if (this.any && (this.any.value || clock.now() - this.any.at < anyMs)) return this.any.value;
    const rows = await store.read('SELECT 1 AS one FROM webhooks LIMIT 1');
    this.any = { value: rows.length > 0, at: clock.now() };
    return this.any.value;
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
    const { jobs, clock } = this.options;
    const job = await jobs.ledger.find(event.jobId);
    if (!job) return [];
    const steps: Step[] = [];
    const audience = new Set([
      '*',
      job.owner,
      ...((await jobs.kind(job.kind).audience?.(job)) ?? []),
    ]);
    for (const hook of wanted.filter(({ owner, jobId }) => jobId !== null || audience.has(owner))) {
      const body = JSON.stringify(await this.body(hook, job, event));
      // The id names event and subscription, so a receiver sees the same one for every try.
      steps.push({
        sql: `INSERT INTO deliveries (id, webhook_id, job_id, event, body, status, tries, next_at, created_at)
              VALUES (?, ?, ?, ?, ?, 'pending', 0, ?, ?) ON CONFLICT DO NOTHING`,
        params: [
          `msg_${hook.id.slice(5)}_${job.id.slice(4)}_${event.n}`,
          hook.id,
          job.id,
          event.type,
          body,
          clock.now(),
          clock.now(),
        ],
      });
    }
    return steps;
  }

  private async body(hook: Webhook, job: Job, event: EventRow): Promise<unknown> {
    const format = this.formats.get(hook.format);
    if (format) return format(job, event);
    const { jobs, clock } = this.options;
    return {
      type: `job.${event.type}`,
      timestamp: new Date(event.at).toISOString(),
      data: {
        event: { n: event.n, type: event.type, data: JSON.parse(event.data) as unknown },
        job: await viewJob(jobs, job, clock.now()),
      },
    };
  }

  private async sendDue(): Promise<void> {
    const { store, clock } = this.options;
    for (;;) {
      const now = clock.now();
      const due = await store.read(
        `SELECT d.*, w.url FROM deliveries d LEFT JOIN webhooks w ON w.id = d.webhook_id
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
      'content-type': 'application/json',
      ...signWebhook({ id, timestamp, body, secret: secretOf(row.webhook_id as string) }),
    };
    let answer: string;
    let ok = false;
    try {
      const status = row.url === null ? 410 : await send({ url: row.url as string, headers, body });
      ok = status >= 200 && status < 300;
      answer = `HTTP ${status}`;
    } catch (error) {
      answer = error instanceof AppError ? `${error.code}: ${error.message}` : 'no answer';
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

function checkUrl(url: string): void {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return;
  throw new AppError('invalidInput', `${url.slice(0, 200)} is not an http(s) address.`);
}

function webhookFromRow(row: Row): Webhook {
  return {
    id: row.id as string,
    owner: row.owner as string,
    url: row.url as string,
    events: JSON.parse(row.events as string) as string[],
    jobId: row.job_id as string | null,
    format: row.format as string,
    createdAt: row.created_at as number,
  };
}

function deliveryFromRow(row: Row): Delivery {
  return {
    id: row.id as string,
    webhookId: row.webhook_id as string,
    jobId: row.job_id as string,
    event: row.event as string,
    status: row.status as Delivery['status'],
    tries: row.tries as number,
    nextAt: row.next_at as number,
    answer: row.answer as string | null,
    createdAt: row.created_at as number,
    deliveredAt: row.delivered_at as number | null,
  };
}
