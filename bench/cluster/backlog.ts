// The cost of a claim on PostgreSQL with 1,000,000 waiting jobs against 1,000. The first thousand are submitted. The rest
// are copies of their rows, created inside the server, because a million submits would take many minutes.
import { Client } from 'pg';
import { bossId } from '../../src/store/postgres/dispatcher.ts';
import { compare, median, type Side } from '../harness.ts';
import { startPostgres } from '../services.ts';
import { claim, fill, finish, open, rounds } from './kit.ts';

const many = Number(process.env.BENCH_MANY ?? 1_000_000);
const few = 1000;
const claims = 100;

const server = await startPostgres();
const sides = { many: await side('many', many), few: await side('few', few) };
await compare({
  name: `claim p50, ${many.toLocaleString('en')} waiting`,
  unit: ' ms',
  rounds,
  ours: async () => sides.many,
  peers: [
    {
      name: `${few.toLocaleString('en')} waiting`,
      bar: { atMost: 1.3 },
      open: async () => sides.few,
    },
  ],
});
await server.close();

/** A round finishes what it claims and submits as many again, so the backlog stays constant. */
async function side(schema: string, count: number): Promise<Side> {
  const submitter = await open(server.url, schema);
  await fill(submitter.jobs, few);
  await multiply(schema, count / few);
  await expect(schema, count);
  const { store, jobs } = await open(server.url, schema);
  return {
    name: schema,
    prepare: () => fill(submitter.jobs, claims),
    operations: claims,
    servicePids: [server.pid],
    round: async () => {
      const times: number[] = [];
      for (let i = 0; i < claims; i++) {
        const start = performance.now();
        const job = await claim(jobs);
        times.push(performance.now() - start);
        await finish(jobs, job!);
      }
      return median(times);
    },
    close: async () => {
      await store.close();
      await submitter.store.close();
    },
  };
}

async function multiply(schema: string, times: number): Promise<void> {
  if (!Number.isInteger(times)) throw new Error(`BENCH_MANY must be a multiple of ${few}`);
  const client = new Client(server.url);
  await client.connect();
  const columns = async (of: string, table: string, without: readonly string[]) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT quote_ident(column_name) AS name FROM information_schema.columns
       WHERE table_schema = $1 AND table_name = $2 AND column_name <> ALL ($3)`,
      [of, table, without],
    );
    return rows.map(({ name }) => name).join(', ');
  };
  await client.query(`SET search_path = ${schema}; SET synchronous_commit = off;
    CREATE FUNCTION pg_temp.copy_id(id text, n int) RETURNS text LANGUAGE sql IMMUTABLE
      AS $$ SELECT 'job_' || left(md5(id || n), 16) $$;
    CREATE FUNCTION pg_temp.boss_id(attempt text) RETURNS uuid LANGUAGE sql IMMUTABLE
      AS $$ SELECT left(encode(set_byte(set_byte(h, 6, (get_byte(h, 6) & 15) | 128),
                                        8, (get_byte(h, 8) & 63) | 128), 'hex'), 32)::uuid
            FROM (SELECT sha256(convert_to(attempt, 'UTF8')) AS h) one $$`);
  const { rows } = await client.query(`SELECT pg_temp.boss_id('job_x.1') AS id`);
  if (rows[0].id !== bossId('job_x.1')) throw new Error('the copies would not be found');
  const copies = `generate_series(2, ${times}) AS g (copy_n)`;
  const job = await columns(schema, 'jobs', ['seq', 'id', 'attempt_id']);
  await client.query(`INSERT INTO jobs (id, attempt_id, ${job})
    SELECT pg_temp.copy_id(id, copy_n), pg_temp.copy_id(id, copy_n) || '.1', ${job} FROM ${copies}, jobs`);
  const event = await columns(schema, 'events', ['cursor', 'job_id']);
  await client.query(`INSERT INTO events (job_id, ${event})
    SELECT pg_temp.copy_id(job_id, copy_n), ${event} FROM ${copies}, events`);
  const entry = await columns(`${schema}_boss`, 'job', ['id', 'data']);
  await client.query(`INSERT INTO ${schema}_boss.job (id, data, ${entry})
    SELECT pg_temp.boss_id(copy || '.1'), jsonb_build_object('jobId', copy, 'attemptId', copy || '.1'), ${entry}
    FROM (SELECT b.*, pg_temp.copy_id(b.data->>'jobId', copy_n) AS copy
          FROM ${copies}, ${schema}_boss.job b) copied`);
  await client.query(`UPDATE counter_deltas SET n = n * ${times}`);
  await client.query('VACUUM ANALYZE');
  await client.end();
}

async function expect(schema: string, count: number): Promise<void> {
  const client = new Client(server.url);
  await client.connect();
  const { rows } = await client.query(
    `SELECT count(*)::int AS n FROM ${schema}_boss.job b
     JOIN ${schema}.jobs j ON j.attempt_id = b.data->>'attemptId' WHERE b.state = 'created'`,
  );
  await client.end();
  if (rows[0].n !== count) throw new Error(`${rows[0].n} wait, not ${count}`);
}
