// Where the end of a job is reported, and what a webhook format gets and returns. Kinds register their own formats; a dialect
// registers those of its system.
import { z } from 'zod';

/** A desktop notification, a command that the operator approved, or a URL. */
export const endReceiver = z
  .string()
  .max(2000)
  .regex(
    /^(?:notify|run:[\w.-]{1,60}|https?:\/\/\S+)$/,
    'must be notify, run:NAME or an http(s) URL',
  );

/** The fields of a job that a format may use. */
export interface WebhookJob {
  id: string;
  status: string;
  input: unknown;
  result: unknown;
  error: { code: string; message: string } | null;
  attempt: number;
  /** Who ran the last attempt. */
  holder: string | null;
  startedAt: number | null;
  finishedAt: number | null;
}

export interface WebhookFacts {
  job: WebhookJob;
  event: { type: string; at: number; data: Record<string, unknown> };
  /** What the job's kind adds, if the format asks for it. */
  facts: Record<string, unknown>;
}

/** A page of a crawl that was just stored. */
export interface WebhookPage {
  seq: number;
  url: string;
  outcome: string;
  /** False: the page could not be read. */
  isRead: boolean;
  title?: string | null | undefined;
  status?: number | null | undefined;
  type?: string | null | undefined;
  reason?: string | null | undefined;
  detail?: string | null | undefined;
  body: Record<string, unknown>;
}

export interface WebhookRequest {
  jobId: string;
  event: string;
  body: string;
  /** The secret the caller chose. Undefined: only the derived secret signs. */
  secret: string | undefined;
}

/** Pure: it reads nothing but its arguments. */
export interface WebhookFormat {
  /** Subscriptions name the format by this. It is stored with them. */
  name: string;
  /** Asks the kind for its facts before each body. */
  needsFacts?: true;
  body(message: WebhookFacts): unknown;
  /** One message per page of a crawl. Without it, one message lists all pages of a transaction. */
  page?(job: WebhookJob, page: WebhookPage): unknown;
  headers?(request: WebhookRequest): Record<string, string>;
}
