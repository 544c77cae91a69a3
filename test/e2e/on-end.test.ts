// `onEnd` of a job: a desktop notification, a command that the operator approved, and a webhook. None is lost by `kill -9`.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { cli, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

test('the end of a job is shown on the desktop, starts an approved command and is sent to a URL', async (t) => {
  const folder = tempFolder(t);
  const bodies: { data: { job: { exitCode: number } } }[] = [];
  const receiver = createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
      bodies.push(JSON.parse(text));
      response.end();
    });
  });
  await new Promise<void>((resolve) => void receiver.listen(0, '127.0.0.1', resolve));
  t.after(() => receiver.close());
  const address = `127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const resumed = join(folder, 'resumed');
  const script = `echo "$ERRAND_ENDED_NAME $ERRAND_ENDED_EVENT $ERRAND_ENDED_EXIT_CODE $ERRAND_AGENT_SESSION" >> ${resumed}`;
  const home = homeWith(t, {
    egress: { allow: [address] },
    onEnd: { commands: { resume: { argv: ['sh', '-c', script] } } },
  });
  const programs = join(folder, 'bin');
  const shown = join(folder, 'shown');
  mkdirSync(programs);
  writeFileSync(join(programs, 'notify-send'), `#!/bin/sh\necho "$*" >> ${shown}\n`);
  chmodSync(join(programs, 'notify-send'), 0o755);
  const env = { PATH: `${programs}:${process.env.PATH}` };
  const server = await startServer(t, { home, env });
  const caller = { CLAUDE_CODE_SESSION_ID: 'conversation-7' };
  const gate = join(folder, 'gate');
  const started = await cli(
    home,
    [
      'run',
      '-d',
      '--name',
      'suite',
      '--on-end',
      'notify',
      '--on-end',
      'run:resume',
      '--on-end',
    ].concat(`http://${address}/`, '--shell', `until [ -e ${gate} ]; do sleep 0.05; done; exit 3`),
    caller,
  );
  assert.equal(started.code, 0, started.stderr);
  // The subscriptions are stored with the job: nothing is lost if the server is killed before the end.
  await server.kill();
  writeFileSync(gate, '');
  const again = await startServer(t, { home, env });
  await until('the approved command ran', () => existsSync(resumed));
  await until('all deliveries ended', () => existsSync(shown) && bodies.length > 0);
  assert.equal(readFileSync(resumed, 'utf8'), 'suite failed 3 conversation-7\n');
  assert.match(
    readFileSync(shown, 'utf8'),
    /^--app-name=Errand -- suite: failed with exit code 3 /,
  );
  assert.equal(bodies[0]!.data.job.exitCode, 3);
  // The command is a job of its own, and starts nothing further.
  const { jobs } = (await again.cli('list', '--json')).json<{ jobs: { name: string }[] }>();
  assert.deepEqual(jobs.map(({ name }) => name).toSorted(), ['on end: resume', 'suite']);

  const refused = await again.cli('run', '-d', '--on-end', 'run:rm', '--', 'true');
  assert.equal(refused.code, 2, refused.stdout);
  assert.match(refused.stderr, /has not approved a command `rm`[^]*Approved commands: resume/);
  const wrong = await again.cli('run', '-d', '--on-end', 'mail', '--', 'true');
  assert.match(wrong.stderr, /--on-end[^]*must be notify, run:NAME or an http\(s\) URL/);
  assert.equal((await again.cli('list', '--json')).json<{ jobs: object[] }>().jobs.length, 2);

  // The same for all jobs; a receiver that fails is reported on the job.
  writeFileSync(join(programs, 'notify-send'), '#!/bin/sh\necho "no session bus" >&2\nexit 1\n');
  const hook = await again.cli('run', '--on-end', 'notify', '--name', 'quiet', '--', 'true');
  assert.equal(hook.code, 0, hook.stderr);
  const failure = await until('the failure is reported', async () => {
    const job = (await again.cli('show', 'quiet', '--json')).json<{
      webhookFailure?: { url: string; answer: string; nextTryAt?: string };
    }>();
    return job.webhookFailure;
  });
  assert.equal(failure.url, 'notify');
  assert.match(failure.answer, /no session bus/);
  assert.equal(failure.nextTryAt, undefined, 'an old notification is not shown later');
});
