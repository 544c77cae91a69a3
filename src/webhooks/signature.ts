// Signs webhooks as in Standard Webhooks: an HMAC-SHA256 over id, timestamp and body, in three headers. Pure.
import { createHmac } from 'node:crypto';

interface Signed {
  id: string;
  /** Seconds since the epoch. */
  timestamp: number;
  body: string;
  secret: Buffer;
}

export function signWebhook(signed: Signed): Record<string, string> {
  return {
    'webhook-id': signed.id,
    'webhook-timestamp': String(signed.timestamp),
    'webhook-signature': `v1,${mac(signed).toString('base64')}`,
  };
}

const mac = ({ id, timestamp, body, secret }: Signed): Buffer =>
  createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest();
