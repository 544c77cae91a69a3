// Serves handler.js as an endpoint and calls it over HTTP, with the requests that RunPod's SDKs send.
import { join } from 'node:path';
import { connect } from '../api.js';
import { startServer } from '../temporary-server.js';

const server = await startServer();
try {
  const api = connect(server.url, server.key);
  const recipe = { module: join(import.meta.dirname, 'handler.js') };
  const endpoint = await api.post('/api/endpoints', { id: 'count-words', recipe });
  console.log('endpoint:', endpoint.id);

  const { status, output } = await api.post('/v2/count-words/runsync', {
    input: { text: 'To be, or not to be: that is the question.' },
  });
  console.log('runsync:', status, output);

  const failed = await api.post('/v2/count-words/runsync', { input: {} });
  console.log('runsync:', failed.status, failed.error);
} finally {
  await server.stop();
}
