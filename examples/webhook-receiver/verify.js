// Verifies the signature of a webhook (https://www.standardwebhooks.com): HMAC-SHA256 over id, timestamp and body.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** An older message may be a recorded one that somebody sends again. */
const toleranceSeconds = 300;

/** `secret` is the `whsec_…` that creating the webhook returned; `body` is the body exactly as received. */
export function isAuthentic(secret, headers, body) {
  const timestamp = headers['webhook-timestamp'];
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (!(age < toleranceSeconds)) return false;
  const expected = createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'))
    .update(`${headers['webhook-id']}.${timestamp}.${body}`)
    .digest();
  // The header lists one signature per valid secret, separated by spaces: "v1,<base64> v1,<base64>".
  return (headers['webhook-signature'] ?? '').split(' ').some((signature) => {
    const actual = Buffer.from(signature.replace('v1,', ''), 'base64');
    return actual.length === expected.length && timingSafeEqual(actual, expected);
  });
}
