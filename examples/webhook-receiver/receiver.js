// Receives the webhooks of a job, verifies their signatures, and prints the job's events.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { connect } from '../api.js';
import { startServer } from '../temporary-server.js';
import { isAuthentic } from './verify.js';

/** The events of the job by their number. A message may arrive twice, or before an earlier one. */
const events = new Map();

/** Errand sends a message again until the response is 2xx. */
async function receive(request, response, secret) {
  const body = await text(request);
  if (!isAuthentic(secret, request.headers, body)) return response.writeHead(401).end();
  const { event, job } = JSON.parse(body).data;
  events.set(event.n, { type: event.type, exitCode: job.exitCode });
  response.writeHead(204).end();
  receiver.emit('event');
}

const receiver = createServer().listen(0, '127.0.0.1');
await once(receiver, 'listening');
const url = `http://127.0.0.1:${receiver.address().port}/`;

// Webhooks to private addresses are refused by default. A receiver on a public address needs no permission.
const server = await startServer({ egress: { allow: ['127.0.0.1'] } });
try {
  const api = connect(server.url, server.key);
  const { secret } = await api.post('/api/webhooks', { url, events: ['*'] });
  receiver.on('request', (request, response) => {
    receive(request, response, secret).catch(() => response.destroy());
  });

  const forged = await fetch(url, { method: 'POST', body: '{}' });
  console.log('a message without a signature:', forged.status);

  await api.post('/api/commands', { argv: ['echo', 'hello'], waitMs: 0 });
  // A job numbers its events from 1 without gaps, so the receiver knows when it has all of them.
  while (events.get(events.size)?.type !== 'completed') await once(receiver, 'event');
  for (let n = 1; n <= events.size; n++) console.log(n, events.get(n).type);
  console.log('exit code:', events.get(events.size).exitCode);
} finally {
  receiver.close();
  await server.stop();
}
