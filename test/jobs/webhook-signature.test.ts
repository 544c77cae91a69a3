// Webhook signatures against a vector that was computed with openssl and Python, not with our code.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { signWebhook, verifyWebhook } from '../../src/jobs/webhook-signature.ts';

const message = {
  id: 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
  timestamp: 1_674_087_231,
  body: '{"type":"job.completed","data":{"id":"job_0123456789abcdef","name":"Grüße"}}',
  // whsec_ZXJyYW5kLXRlc3Qtc2VjcmV0LTAxMjM0NTY3ODlhYmNk
  secret: Buffer.from('ZXJyYW5kLXRlc3Qtc2VjcmV0LTAxMjM0NTY3ODlhYmNk', 'base64'),
};
const signature = 'v1,HTMCf6WvogqNlUpQXbciOzJeM9CHGOtM+JMSWE5kcAQ=';
const limits = { now: (message.timestamp + 60) * 1000, toleranceSeconds: 300 };

describe('webhook signatures', () => {
  it('are those of Standard Webhooks', () => {
    assert.deepEqual(signWebhook(message), {
      'webhook-id': message.id,
      'webhook-timestamp': '1674087231',
      'webhook-signature': signature,
    });
  });

  it('hold for exactly this message and secret, one of several being enough', () => {
    assert.ok(verifyWebhook(message, signature, limits));
    assert.ok(verifyWebhook(message, `v1,AAAA v1a,x ${signature}`, limits));
    const others = [
      { ...message, id: 'msg_other' },
      { ...message, timestamp: message.timestamp + 1 },
      { ...message, body: `${message.body} ` },
      { ...message, secret: Buffer.from('other') },
    ];
    for (const other of others) assert.ok(!verifyWebhook(other, signature, limits));
    for (const header of ['', 'v1', 'v1,', signature.replace('v1', 'v2'), signature.slice(0, -6)])
      assert.ok(!verifyWebhook(message, header, limits), header);
  });

  it('are refused when too old or from the future', () => {
    const at = (seconds: number) => ({ ...limits, now: (message.timestamp + seconds) * 1000 });
    assert.ok(verifyWebhook(message, signature, at(300)));
    assert.ok(!verifyWebhook(message, signature, at(301)));
    assert.ok(!verifyWebhook(message, signature, at(-301)));
  });
});
