// Webhook signatures against vectors that were not computed with our code.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signWebhook } from '../../src/webhooks/signature.ts';

test('the signature is the one of Standard Webhooks', () => {
  const headers = signWebhook({
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1_614_265_330,
    body: '{"test": 2432232314}',
    secret: Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64'),
  });
  assert.deepEqual(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

test('letters beyond ASCII are signed as the UTF-8 that is sent (computed with openssl and Python)', () => {
  const headers = signWebhook({
    id: 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
    timestamp: 1_674_087_231,
    body: '{"type":"job.completed","data":{"id":"job_0123456789abcdef","name":"Grüße"}}',
    // whsec_ZXJyYW5kLXRlc3Qtc2VjcmV0LTAxMjM0NTY3ODlhYmNk
    secret: Buffer.from('ZXJyYW5kLXRlc3Qtc2VjcmV0LTAxMjM0NTY3ODlhYmNk', 'base64'),
  });
  assert.equal(headers['webhook-signature'], 'v1,HTMCf6WvogqNlUpQXbciOzJeM9CHGOtM+JMSWE5kcAQ=');
});
