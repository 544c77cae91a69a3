// Standard Webhooks: an HMAC-SHA256 over id, timestamp and body, in three headers. Pure.
import { createHmac, timingSafeEqual } from 'node:crypto';

export interface Signed {
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

/** True for a fresh message whose header holds a right signature (several may stand in it while secrets change). */
export function verifyWebhook(
  signed: Signed,
  header: string,
  limits: { now: number; toleranceSeconds: number },
): boolean {
  if (Math.abs(limits.now / 1000 - signed.timestamp) > limits.toleranceSeconds) return false;
  const right = mac(signed);
  return header.split(' ').some((part) => {
    const [version, value] = part.split(',');
    const given = Buffer.from(value ?? '', 'base64');
    return version === 'v1' && given.length === right.length && timingSafeEqual(given, right);
  });
}

const mac = ({ id, timestamp, body, secret }: Signed): Buffer =>
  createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest();
