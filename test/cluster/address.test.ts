// How nodes find each other: a server that listens on all addresses advertises one that other nodes can reach, and calls
// to a wrong address fail with an explanation.
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

test('a node advertises the address that the database sees, in the family it listens on', () => {
  const urlFor = (host: string, clientAddress: string | undefined, ...addresses: string[]) =>
    nodeUrl({ url: 'http://127.0.0.1:7411', host, clientAddress }, machine(...addresses) as never);
  const two = ['fe80::1', 'fd00::5', '172.17.0.1', '10.0.0.5'];
  assert.equal(urlFor('10.0.0.5', '10.0.0.5', ...two), 'http://127.0.0.1:7411');
  assert.equal(urlFor('0.0.0.0', '10.0.0.5', ...two), 'http://10.0.0.5:7411');
  // The database may see a proxy. Then any address of the machine is better.
  assert.equal(urlFor('0.0.0.0', '192.168.9.9', ...two), 'http://172.17.0.1:7411');
  assert.equal(urlFor('0.0.0.0', 'fd00::5', ...two), 'http://172.17.0.1:7411');
  assert.equal(urlFor('::', 'fd00::5', ...two), 'http://[fd00::5]:7411');
  assert.equal(urlFor('::', undefined, 'fd00::5'), 'http://[fd00::5]:7411');
  assert.equal(urlFor('0.0.0.0', '127.0.0.1'), 'http://127.0.0.1:7411');
});

test('a node on all addresses is reachable by every address, by other nodes and by its workers', async (t) => {
  const cluster = await startCluster(t, 1);
  const [a] = cluster.nodes as [TestServer];
  const sum = { recipe: { module: handlerFile }, maxWorkers: 1, spareRunner: false };
  const open = await cluster.add({
    home: homeWith(t, { endpoint: { sum } }),
    args: ['--host', '0.0.0.0', '--label', 'open'],
  });
  const { port } = new URL(open.url);
  assert.equal(open.url, `http://127.0.0.1:${port}`, 'a reachable address');
  for (const name of ['127.0.0.1', 'localhost', '0.0.0.0']) {
    const result = await fetch(`http://${name}:${port}/health`);
    assert.equal(result.status, 200, name);
  }
  const ran = await a.api('POST', '/api/commands', {
    ...{ command: 'echo far away', cwd: '/', labels: ['open'], waitMs: 20_000 },
  });
  assert.match(ran.json<{ output: { text: string } }>().output.text, /far away/);
  const viaOpen = client(open.url, open.key);
  const job = await viaOpen.run('sum', { value: 1 });
  assert.equal((await viaOpen.ended('sum', job)).status, 'COMPLETED');
});

test('a call that reaches the wrong node or another program fails with an explanation', async (t) => {
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
    assert.equal(ran.code, 4, ran.stderr + ran.stdout);
    const result = await a.api('GET', `/api/jobs/${ran.json<{ id: string }>().id}/output`);
    assert.equal(result.status, 503, result.text);
    return result.text;
  };
  assert.match(await outputOf('self', `${a.url}/`), /reached node node_\w+[^]*ERRAND_NODE_URL/);
  assert.match(
    await outputOf('astray', `${a.url}/no-such-place`),
    /responded with status 404[^]*ERRAND_NODE_URL/,
  );
});
