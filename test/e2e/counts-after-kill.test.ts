// Counters and statistics after kill -9 of the server while jobs are submitted and end: they equal the jobs.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Counted {
  count: number;
  byStatus: Record<string, number>;
}

test('counts and statistics are exact after kill -9', async (t) => {
  const home = join(tempFolder(t), 'home');
  const first = await startServer(t, { home });
  const submissions = submitMany(first, 40);
  await until(
    'some jobs have ended',
    async () => ((await counted(first)).byStatus.completed ?? 0) >= 5,
  );
  await first.kill();
  await submissions;
  const second = await startServer(t, { home });
  const { jobs } = (await second.api('GET', '/api/jobs?limit=200')).json<{
    jobs: { id: string }[];
  }>();
  const found = await until('every job has ended', async () => {
    const now = await counted(second);
    const { queued = 0, running = 0 } = now.byStatus;
    return queued + running === 0 ? now : undefined;
  });
  assert.equal(found.count, jobs.length);
  const { series } = (await second.api('GET', '/api/stats?rangeMs=7200000')).json<{
    series: { points: Record<string, number>[] }[];
  }>();
  const sum = (field: string) =>
    series.flatMap(({ points }) => points).reduce((total, point) => total + point[field]!, 0);
  const { completed = 0, failed = 0, cancelled = 0, timed_out: timedOut = 0 } = found.byStatus;
  assert.equal(sum('submitted'), jobs.length);
  assert.deepEqual(['completed', 'failed', 'cancelled', 'timedOut'].map(sum), [
    completed,
    failed,
    cancelled,
    timedOut,
  ]);
});

const counted = async ({ api }: TestServer): Promise<Counted> =>
  (await api('GET', '/api/jobs/count')).json<Counted>();

/** Submissions that the kill interrupts fail. */
async function submitMany({ api }: TestServer, count: number): Promise<void> {
  const submit = () => api('POST', '/api/commands', { argv: ['true'], waitMs: 0 }).catch(() => {});
  await Promise.all(Array.from({ length: count }, submit));
}
