// The signature of a body as many webhook receivers check it: `sha256=` and the HMAC in hex.
import { createHmac } from 'node:crypto';

/** The header with the signature, or none without a secret. */
export function signatureHeader(
  name: string,
  secret: string | undefined,
  body: string,
): Record<string, string> {
  if (secret === undefined) return {};
  return { [name]: `sha256=${createHmac('sha256', secret).update(body).digest('hex')}` };
}
