// A stand-in for your dev server: it listens on a free port and logs every request.
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  console.log(request.method, request.url);
  response.end('Hello from the dev server\n');
});
server.listen(0, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}/`);
});
