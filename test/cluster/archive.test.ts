// Output that outlives its node: archived in object storage after the job ends, readable from any other node, deleted with
// the job. Without an archive, the error names the node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { s3Keys, startObjectStorage, type ObjectStorage } from '../fixtures/s3.ts';
import { startCluster, type TestCluster } from '../helpers/cluster.ts';
import { homeWith } from '../helpers/folder.ts';
import { openReader } from '../helpers/postgres.ts';
import { cli, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';
import { freshDatabase } from '../helpers/postgres.ts';

const secrets = {
  ERRAND_S3_ACCESS_KEY_ID: s3Keys.id,
  ERRAND_S3_SECRET_ACCESS_KEY: s3Keys.secret,
};

const archived = ({ endpoint }: ObjectStorage) => ({
  cluster: { archive: { endpoint, region: 'auto', prefix: 'out put/' } },
});

const run = async (node: TestServer, command: string, label: string) => {
  const body = { command, cwd: '/', waitMs: 30_000, labels: [label] };
  const result = await node.api('POST', '/api/commands', body);
  assert.equal(result.status, 200, result.text);
  return result.json<{ id: string; status: string; exitCode: number }>();
};

const add = (cluster: TestCluster, home: string, label: string, env = secrets) =>
  cluster.add({ home, env: { ...env, ERRAND_LABELS: label } });

test('output is readable from another node after its node is gone, and deleted with its job', async (t) => {
  const storage = await startObjectStorage(t);
  const cluster = await startCluster(t, 0);
  const [a, b] = await Promise.all(
    ['at=a', 'at=b'].map((label) => add(cluster, homeWith(t, archived(storage)), label)),
  );
  storage.away = true;
  const long = `i=0; while [ $i -lt 2000 ]; do echo "line $i of many"; i=$((i+1)); done; exit 6`;
  const job = await run(a!, long, 'at=b');
  assert.equal(job.exitCode, 6);
  const empty = await run(a!, 'true', 'at=b');
  await until(
    'an upload failed while the storage is unavailable',
    () => storage.refused.length > 0,
  );
  storage.away = false;
  const ledger = await openReader(t, cluster.url);
  const kept = (id: string) =>
    until(`${id} is kept`, async () => {
      const rows = await ledger.read<{ bytes: number }>(
        'SELECT bytes FROM archives WHERE job_id = ? AND files IS NOT NULL',
        [id],
      );
      return rows[0];
    });
  assert.ok((await kept(job.id)).bytes > 30_000);
  await kept(empty.id);
  assert.ok([...storage.objects.keys()].some((key) => key.startsWith(`out put/${job.id}/`)));
  await b!.kill();
  const gone = await until('its node is gone', async () => {
    const result = await a!.api('GET', `/api/jobs/${job.id}/output`);
    return result.status === 200 ? result.json<{ text: string }>() : undefined;
  });
  assert.match(gone.text, /line 1999 of many/);
  const grep = await a!.api('GET', `/api/jobs/${job.id}/output?mode=grep&pattern=line%20777%20`);
  assert.match(grep.text, /line 777 of many/);
  const nothing = await a!.api('GET', `/api/jobs/${empty.id}/output`);
  assert.equal(nothing.json<{ text: string }>().text, '');
  // The node is permanently gone: another node deletes its jobs eventually, with their archived files.
  const { nodes } = (await a!.api('GET', '/api/nodes')).json<{
    nodes: { id: string; alive: boolean }[];
  }>();
  const dead = nodes.find(({ alive }) => !alive)!.id;
  assert.equal((await a!.api('DELETE', `/api/nodes/${dead}`)).status, 200);
  const forgetting = homeWith(t, { ...archived(storage), retention: { maxAgeMs: 0 } });
  await add(cluster, forgetting, 'at=c');
  await until('its objects are deleted', () =>
    [...storage.objects.keys()].every((key) => !key.includes(job.id)),
  );
  assert.deepEqual(
    storage.refused.filter((line) => !line.includes('SlowDown')),
    [],
  );
});

test('output that cannot be archived does not block the output of other jobs', async (t) => {
  const storage = await startObjectStorage(t);
  const cluster = await startCluster(t, 0);
  const a = await add(cluster, homeWith(t, archived(storage)), 'at=a');
  storage.away = true;
  const first = await run(a, 'echo first', 'at=a');
  storage.away = first.id;
  const second = await run(a, 'echo second', 'at=a');
  const isArchived = (id: string) => [...storage.objects.keys()].some((key) => key.includes(id));
  await until('the second is archived', () => isArchived(second.id));
  assert.equal(isArchived(first.id), false);
  storage.away = false;
  await until('the first is archived later', () => isArchived(first.id));
});

test('without an archive the error names the lost node; a wrong storage key loses nothing', async (t) => {
  const storage = await startObjectStorage(t);
  const cluster = await startCluster(t, 0);
  const wrong = { ...secrets, ERRAND_S3_SECRET_ACCESS_KEY: 'wrong' };
  const [a, b] = await Promise.all([
    add(cluster, homeWith(t, {}), 'at=a'),
    add(cluster, homeWith(t, archived(storage)), 'at=b', wrong),
  ]);
  const job = await run(a, 'echo here', 'at=b');
  await until('the storage rejected the signature', () =>
    storage.refused.some((l) => l.includes('Signature')),
  );
  assert.equal(storage.objects.size, 0);
  const read = () => a.api('GET', `/api/jobs/${job.id}/output`);
  assert.match((await read()).json<{ text: string }>().text, /here/);
  await b.kill();
  const gone = await until('its node is gone', async () => {
    const result = await read();
    return result.status === 410 ? result : undefined;
  });
  assert.match(gone.text, /last seen/);
  assert.match(gone.text, /cluster\.archive/);
});

test('a server rejects an archive without access keys at start', async (t) => {
  const home = homeWith(t, { cluster: { archive: { endpoint: 'http://127.0.0.1:9/x' } } });
  const env = { ERRAND_STORE: await freshDatabase() };
  assert.equal((await cli(home, ['migrate'], env)).code, 0);
  const rejected = await cli(home, ['serve', '--port', '0'], env);
  assert.notEqual(rejected.code, 0);
  assert.match(rejected.stderr, /ERRAND_S3_ACCESS_KEY_ID/);
});
