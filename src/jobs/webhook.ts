// A webhook subscription and a delivery: their tables and rows.
import { decodeJsonOr } from '../runtime/json.ts';
import type { Migration, Row } from '../store/store.ts';

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
    // What a caller gave for one subscription: headers of their own, and a secret instead of the derived one's use.
    id: 'webhooks/2',
    statements: () => [
      'ALTER TABLE webhooks ADD COLUMN headers TEXT',
      'ALTER TABLE webhooks ADD COLUMN secret TEXT',
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

export function webhookFromRow(row: Row): Webhook {
  return {
    id: row.id as string,
    owner: row.owner as string,
    url: row.url as string,
    events: decodeJsonOr<string[]>(row.events, []),
    jobId: row.job_id as string | null,
    format: row.format as string,
    createdAt: row.created_at as number,
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
