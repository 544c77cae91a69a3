// Webhook subscriptions and deliveries: their tables and row mappings.
import { decodeListOr, isAnything, isRecord } from '../runtime/json.ts';
import { isLimited, type Caller } from '../operation.ts';
import type { JsonColumns, Migration, Row, Step } from '../store/store.ts';

export const webhookJsonColumns: JsonColumns = {
  webhooks: { events: Array.isArray, headers: isRecord },
  deliveries: { body: isAnything },
};

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
  {
    // Headers and a secret that the caller chose for one subscription.
    id: 'webhooks/2',
    statements: () => [
      'ALTER TABLE webhooks ADD COLUMN headers TEXT',
      'ALTER TABLE webhooks ADD COLUMN secret TEXT',
    ],
  },
  {
    // Events spell statuses the way statuses do. Stored bodies stay: each try of a delivery sends the same body.
    id: 'webhooks/3',
    statements: () => [
      `UPDATE webhooks SET events =
        replace(replace(events, '"timedOut"', '"timed_out"'), '"inputRequired"', '"input_required"')`,
      `UPDATE deliveries SET event = 'timed_out' WHERE event = 'timedOut'`,
      `UPDATE deliveries SET event = 'input_required' WHERE event = 'inputRequired'`,
    ],
  },
  {
    // A webhook that a limited key created ends with that key.
    id: 'webhooks/4',
    statements: ({ int }) => [
      'ALTER TABLE webhooks ADD COLUMN key_id TEXT',
      `ALTER TABLE webhooks ADD COLUMN ends_at ${int}`,
    ],
  },
];

/** The key that a webhook ends with, and when that key expires. */
export interface WebhookKey {
  id: string;
  expiresAt?: number | undefined;
}

/** The limited key of a caller. Webhooks of other callers belong to the owner and stay. */
export const webhookKeyOf = (caller: Caller): { key?: WebhookKey } =>
  caller.keyId !== undefined && isLimited(caller)
    ? { key: { id: caller.keyId, expiresAt: caller.expiresAt } }
    : {};

/** Removes what a key subscribed, in the transaction that revokes the key. */
export const removeWebhooksOfKey = (keyId: string): Step[] => [
  {
    sql: `UPDATE deliveries SET status = 'failed', answer = 'webhook deleted' WHERE status = 'pending'
      AND webhook_id IN (SELECT id FROM webhooks WHERE key_id = ?)`,
    params: [keyId],
  },
  { sql: 'DELETE FROM webhooks WHERE key_id = ?', params: [keyId] },
];

export interface Webhook {
  id: string;
  owner: string;
  url: string;
  /** Event types, or `*`. */
  events: string[];
  jobId: string | null;
  /** The body format: `errand`, or a format that a kind added for its dialect. */
  format: string;
  createdAt: number;
  /** Set if a limited key created it. */
  keyId: string | null;
  endsAt: number | null;
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

export function webhookFromRow(row: Row): Webhook {
  return {
    id: row.id as string,
    owner: row.owner as string,
    url: row.url as string,
    events: decodeListOr<string>(row.events, []),
    jobId: row.job_id as string | null,
    format: row.format as string,
    createdAt: row.created_at as number,
    keyId: row.key_id as string | null,
    endsAt: row.ends_at as number | null,
  };
}

export function deliveryFromRow(row: Row): Delivery {
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
