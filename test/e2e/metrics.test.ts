// /metrics as a monitoring system reads it: format (checked by promtool if it is installed), counters and histograms.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { startServer } from '../helpers/server.ts';

test('metrics count finished jobs and include histograms of wait and run time', async (t) => {
  const server = await startServer(t);
  await server.cli('run', '--', 'true');
  await server.cli('run', '--queue', 'ci', '--', 'false');
  const { text } = await server.api('GET', '/metrics');
  const value = (sample: string) =>
    text
      .split('\n')
      .find((line) => line.startsWith(`${sample} `))
      ?.split(' ')
      .at(-1);
  const finished = (queue: string, status: string) =>
    value(`errand_jobs_finished_total{kind="command",queue="${queue}",status="${status}"}`);
  assert.equal(finished('default', 'completed'), '1');
  assert.equal(finished('ci', 'failed'), '1');
  for (const name of ['errand_job_wait_seconds', 'errand_job_run_seconds']) {
    assert.equal(value(`${name}_bucket{kind="command",le="+Inf"}`), '2');
    assert.equal(value(`${name}_count{kind="command"}`), '2');
    assert.ok(Number(value(`${name}_sum{kind="command"}`)) >= 0);
  }
  // Every metric family has HELP and TYPE before its first sample, and counter names end with _total.
  for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    assert.ok(text.includes(`# HELP ${name} `));
    assert.equal(type === 'counter', name!.endsWith('_total'), name);
  }
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  if (checked.error) t.diagnostic('promtool (Debian: prometheus) is not installed');
  else assert.deepEqual([checked.status, checked.stderr, checked.stdout], [0, '', '']);
});
