// How nodes find each other: a server on every address tells the others one that leads to it, and an address that leads to
// somebody else, or to nobody, is said instead of answered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeUrl } from '../../src/cluster/address.ts';
import { startCluster } from '../helpers/cluster.ts';
import { client, handlerFile } from '../helpers/endpoint.ts';
import { homeWith } from '../helpers/folder.ts';
import type { TestServer } from '../helpers/server.ts';

const family = (address: string) => (address.includes(':') ? 'IPv6' : 'IPv4');
const machine = (...addresses: string[]) => ({
  lo: [{ address: '127.0.0.1', internal: true, family: 'IPv4' }],
  eth: addresses.map((address) => ({ address, internal: false, family: family(address) })),
});

test('the address for other nodes is that towards the database, of the family it listens on', () => {
  const told = (host: string, seenAs: string | undefined, ...addresses: string[]) =>
    nodeUrl({ url: 'http://127.0.0.1:7411', host, seenAs }, machine(...addresses) as never);
  const two = ['fe80::1', 'fd00::5', '172.17.0.1', '10.0.0.5'];
  assert.equal(told('10.0.0.5', '10.0.0.5', ...two), 'http://127.0.0.1:7411');
  assert.equal(told('0.0.0.0', '10.0.0.5', ...two), 'http://10.0.0.5:7411');
  // What the database sees may be a proxy's; then any address of the machine is better than that.
  assert.equal(told('0.0.0.0', '192.168.9.9', ...two), 'http://172.17.0.1:7411');
  assert.equal(told('0.0.0.0', 'fd00::5', ...two), 'http://172.17.0.1:7411');
  assert.equal(told('::', 'fd00::5', ...two), 'http://[fd00::5]:7411');
  assert.equal(told('::', undefined, 'fd00::5'), 'http://[fd00::5]:7411');
  assert.equal(told('0.0.0.0', '127.0.0.1'), 'http://127.0.0.1:7411');
});

test('a node on every address: called by all its names, its output read from others, its workers at work', async (t) => {
  const cluster = await startCluster(t, 1);
  const [a] = cluster.nodes as [TestServer];
  const sum = { recipe: { module: handlerFile }, workersMax: 1, spareRunner: false };
  const open = await cluster.add({
    home: homeWith(t, { endpoints: { sum } }),
    args: ['--host', '0.0.0.0', '--label', 'open'],
  });
  const { port } = new URL(open.url);
  assert.equal(open.url, `http://127.0.0.1:${port}`, 'one that can be called');
  for (const name of ['127.0.0.1', 'localhost', '0.0.0.0']) {
    const answer = await fetch(`http://${name}:${port}/health`);
    assert.equal(answer.status, 200, name);
  }
  const ran = await a.api('POST', '/api/commands', {
    ...{ command: 'echo far away', cwd: '/', labels: ['open'], waitMs: 20_000 },
  });
  assert.match(ran.json<{ output: { text: string } }>().output.text, /far away/);
  const viaOpen = client(open.url, open.key);
  const job = await viaOpen.run('sum', { value: 1 });
  assert.equal((await viaOpen.ended('sum', job)).status, 'COMPLETED');
});

test('an address that leads to another node or to another program is said, never taken for an answer', async (t) => {
  const cluster = await startCluster(t, 1);
  const [a] = cluster.nodes as [TestServer];
  const outputOf = async (label: string, url: string) => {
    await cluster.add({ args: ['--label', label], env: { ERRAND_NODE_URL: url } });
    const ran = await a.cli(
      'run',
      '--label',
      label,
      '--cwd',
      '/',
      '--json',
      '--',
      'sh',
      '-c',
      'exit 4',
    );
    assert.equal(ran.code, 4, ran.stderr);
    const answer = await a.api('GET', `/api/jobs/${ran.json<{ id: string }>().id}/output`);
    assert.equal(answer.status, 503, answer.text);
    return answer.text;
  };
  assert.match(await outputOf('self', `${a.url}/`), /came to node_\w+[^]*ERRAND_NODE_URL/);
  assert.match(
    await outputOf('astray', `${a.url}/no-such-place`),
    /answered 404[^]*ERRAND_NODE_URL/,
  );
});
