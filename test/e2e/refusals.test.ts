// Requests that the server must reject with the right status, and file permissions that it repairs.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli, startServer, onPostgres, type TestServer } from '../helpers/server.ts';
import { tempFolder } from '../helpers/folder.ts';

test('requests with a wrong host, origin, stream, node or path are rejected', async (t) => {
  const server = await startServer(t);
  const { host, port } = new URL(server.url);

  assert.equal(await statusOf(server, [`Host: ${host}`]), 200);
  assert.equal(await statusOf(server, [`Host: ${host}`, 'Host: evil.example']), 400);
  assert.equal(await statusOf(server, ['Host: evil.example', `Host: ${host}`]), 400);
  assert.equal(await statusOf(server, [`Host: ${host}`, `Origin: http://${host}`]), 200);
  assert.equal(await statusOf(server, [`Host: ${host}`, `Origin: https://${host}`]), 403);
  assert.equal(await statusOf(server, [`Host: ${host}`, `Origin: https://localhost:${port}`]), 403);

  const stream = await server.api('GET', '/api/jobs', undefined, { accept: 'text/event-stream' });
  assert.equal(stream.status, 406, stream.text);
  assert.match(stream.headers.get('content-type') ?? '', /problem\+json/);
  const problem = stream.json<{ code: string; hint: string }>();
  assert.equal(problem.code, 'notAcceptable');
  assert.match(problem.hint, /application\/json/);

  const unknown = await server.api('DELETE', '/api/nodes/node_000000000000');
  assert.equal(unknown.status, 404, unknown.text);

  const relative = await server.api('POST', '/api/backup', { path: 'relative.sqlite' });
  assert.deepEqual(
    [relative.status, relative.json<{ code: string }>().code],
    [400, 'invalidInput'],
  );
  assert.ok(!existsSync(join(server.home, 'relative.sqlite')));
  if (!onPostgres) {
    const cwd = tempFolder(t);
    const backup = await cli(server.home, ['backup', 'mine.sqlite'], {}, { cwd });
    assert.equal(backup.code, 0, backup.stderr);
    assert.ok(existsSync(join(cwd, 'mine.sqlite')));
  }
});

test('the server removes access for others from private files at the start', async (t) => {
  const first = await startServer(t);
  await first.stop();
  const key = join(first.home, 'owner.key');
  chmodSync(key, 0o644);
  const again = await startServer(t, { home: first.home });
  assert.equal(statSync(key).mode & 0o777, 0o600);
  assert.match(again.stderr(), /owner\.key was readable by other users; changed its mode to 0600/);
});

/** Returns the status of a raw request, because HTTP clients do not send a header twice. */
function statusOf({ url, key }: TestServer, headers: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(url);
  const lines = ['GET /api/jobs HTTP/1.1', ...headers, `Authorization: Bearer ${key}`];
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(port), hostname);
    socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    socket.once('error', reject);
    socket.once('close', () => resolve(Number(text.slice(9, 12))));
    socket.write([...lines, 'Connection: close', '', ''].join('\r\n'));
  });
}
