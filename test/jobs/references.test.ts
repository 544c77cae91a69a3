// Job references by name, id prefix and @last, in every operation that accepts an id, with the caller's permissions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../helpers/stores.ts';
import { startApp } from '../helpers/app.ts';
import { JobReferences } from '../../src/jobs/references.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import type { Kind } from '../../src/jobs/kind.ts';
import type { Caller } from '../../src/operation.ts';
import { ManualClock } from '../../src/runtime/clock.ts';

const caller = (owner: string, more: Partial<Caller> = {}): Caller => ({
  owner,
  scopes: new Set(['read', 'run']),
  admin: false,
  local: false,
  ...more,
});
const plain: Kind = {
  name: 'plain',
  dispatched: true,
  retryable: true,
  cancellable: true,
  capacity: () => 1,
};

for (const { name, open } of stores) {
  test(`${name}: a unique match resolves, several are listed, jobs of others never match`, async (t) => {
    const jobs = new Jobs(await open(t), new ManualClock());
    jobs.addKind(plain);
    const references = new JobReferences(jobs);
    const submit = async (owner: string, more: { id?: string; name?: string } = {}) =>
      (await jobs.submit({ kind: 'plain', input: {}, owner, ...more })).job.id;
    const first = await submit('ann', { id: 'job_abcdaaaaaaaaaaaa', name: 'tests' });
    const second = await submit('ann', { id: 'job_abcdbbbbbbbbbbbb', name: 'build' });
    const foreign = await submit('bob', { id: 'job_abcdcccccccccccc', name: 'secret' });
    const ann = caller('ann');
    const found = (text: string, by = ann) => references.resolve(text, by);
    const refused = async (text: string, code: string, by = ann) => {
      let error: { code?: string; hint?: string } = {};
      await references.resolve(text, by).catch((thrown: typeof error) => (error = thrown));
      assert.equal(error.code, code, text);
      return error.hint ?? '';
    };
    assert.equal(await found(first), first);
    assert.equal(await found('tests'), first);
    assert.equal(await found('@last'), second);
    assert.equal(await found('abcda'), first);
    assert.equal(await found('JOB_ABCDB'), second);
    assert.match(await refused('abcd', 'conflict'), new RegExp(`${second}.*${first}`));
    assert.doesNotMatch(await refused('abcd', 'conflict'), new RegExp(foreign));
    await refused('abcdc', 'notFound');
    await refused('secret', 'notFound');
    assert.match(await refused('abc', 'notFound'), /at least 4 characters/);
    assert.match(await refused('@lst', 'notFound'), /@last is the newest job/);
    await refused('%', 'notFound');
    assert.equal(await references.resolve('tests', undefined), 'tests', 'the operation checks it');
    await refused('@last', 'notFound', caller('cat'));
    await refused('tests', 'notFound', caller('ann', { kinds: ['other'] }));
    await refused('@last', 'notFound', caller('ann', { queues: ['other'] }));
    const admin = caller('root', { admin: true });
    assert.equal(await found('secret', admin), foreign);
    await submit('root', { name: 'secret' });
    assert.notEqual(await found('secret', admin), foreign, 'own jobs come first');

    const third = await submit('ann', { name: 'tests' });
    assert.match(await refused('tests', 'conflict'), new RegExp(`${third}.*${first}`));
    await jobs.cancel(first, 'ann');
    assert.equal(
      await found('tests'),
      third,
      'an unfinished job takes precedence over an ended one of the same name',
    );
    await jobs.cancel(third, 'ann');
    await refused('tests', 'conflict');
  });
}

test('every operation on a job accepts a name: for one job, a list and a stream', async (t) => {
  const { call, stream } = await startApp(t);
  const { id } = await call<{ id: string }>('run_command', {
    command: 'echo hello',
    name: 'my job / ü',
    waitMs: 20_000,
  });
  const named = { id: 'my job / ü' };
  assert.equal((await call('get_job', named)).id, id);
  assert.match(String((await call('read_output', { id: '@last' })).text), /hello/);
  const waited = await call<{ jobs: { id: string }[] }>('wait_for_jobs', { ids: [named.id, id] });
  assert.deepEqual(
    waited.jobs.map((job) => job.id),
    [id],
  );
  const events: string[] = [];
  const signal = new AbortController().signal;
  for await (const { event } of stream('list_events', named, signal)) events.push(event);
  assert.equal(events.at(-1), 'completed');
  const next = await call<{ id: string }>('run_command', {
    argv: ['true'],
    after: [id.slice(4, 14)],
    waitMs: 20_000,
  });
  assert.equal((await call('get_job', { id: next.id })).status, 'completed');
  await assert.rejects(call('get_job', { id: 'no such job' }), { code: 'notFound' });
  await assert.rejects(call('get_job', { id: '' }), { code: 'invalidInput' });
});
