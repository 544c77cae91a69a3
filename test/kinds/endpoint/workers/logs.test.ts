// Worker logs, followed on the command line and over SSE, with the job of each line.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { handlerFile, startEndpoints, type EndpointServer } from '../../../helpers/endpoint.ts';
import { until } from '../../../helpers/until.ts';
import { bin } from '../../../helpers/server.ts';

test('the command line and SSE follow logs, in both APIs', async (t) => {
  const server = await startEndpoints(t);
  await server.save('talk', { recipe: { module: handlerFile }, maxWorkers: 1, minWorkers: 1 });
  const first = await server.ended('talk', await server.run('talk', { do: 'print' }));
  const worker = first.workerId as string;
  const cli = errand(t, server, ['endpoint', 'log', 'talk', worker, '--follow']);
  const lines = errand(t, server, ['endpoint', 'log', 'talk', '-f', '--json']);
  const sse = events(t, server, '/api/endpoints/talk/log');
  const runpod = events(t, server, `/v2/serverless/talk/workers/${worker}/logs?tail=0`);
  const mine = (text: string, id: unknown) => text.includes(`printed for ${String(id)}`);
  await until(
    'the old line is there',
    () => mine(cli.text(), first.id) && mine(lines.text(), first.id),
  );
  const second = await server.ended('talk', await server.run('talk', { do: 'print' }));
  await until('the new line comes', () => mine(cli.text(), second.id));
  await until('as JSON', () => mine(lines.text(), second.id));
  await until('over SSE', () => mine(sse.text(), second.id));
  await until("in RunPod's shape", () => mine(runpod.text(), second.id));
  const line = lines
    .text()
    .split('\n')
    .find((text) => mine(text, second.id));
  const { jobId, source } = JSON.parse(line!) as Record<string, unknown>;
  assert.deepEqual([jobId, source], [second.id, 'container'], 'it belongs to its job');
  const frame = runpod
    .text()
    .split('\n\n')
    .find((text) => mine(text, second.id))!;
  assert.match(
    frame,
    /^id: \d{4}-\d\d-\d\dT[^\n]+\/\d{12}\ndata: \{"ts":"[^"]+","source":"container"/,
  );
  assert.equal(mine(runpod.text(), first.id), false, 'tail=0: only what is new');
  const one = await server.call('GET', `/api/endpoints/talk/log?jobId=${second.id as string}`);
  const own = one.body.lines as { jobId: string }[];
  assert.ok(own.length > 0 && own.every(({ jobId: id }) => id === second.id));

  const read = await server.call('GET', `/api/jobs/${second.id as string}/output`);
  const printed = `printed for ${second.id as string}\n{"not":"a result"}\n`;
  assert.equal(read.body.text, printed, 'read_output returns only the lines of this job');
  const found = await server.call(
    'GET',
    `/api/jobs/${first.id as string}/output?mode=grep&pattern=not`,
  );
  assert.deepEqual([found.body.matches, found.body.status], [1, 'completed']);
  const whole = errand(t, server, ['logs', second.id as string]);
  await until('errand logs ends', () => whole.code() !== undefined);
  assert.equal(whole.text(), printed);
  const quiet = await server.ended('talk', await server.run('talk', { do: 'echo' }));
  const nothing = await server.call('GET', `/api/jobs/${quiet.id as string}/output`);
  assert.equal(nothing.body.text, '');
  assert.match(JSON.stringify(nothing.body.omitted), /read_worker_log/);

  await server.call('DELETE', '/api/endpoints/talk');
  await until('a follower ends with its worker', () => cli.code() !== undefined);
  assert.equal(cli.code(), 0);
  const ids = [...sse.text().matchAll(/^id: (.+)$/gm)].map(([, id]) => id!);
  const offsets = ids.map((id) => Number(id.split('/')[1]));
  const sorted = <T extends string | number>(list: T[]) =>
    list.toSorted((a, b) => (a < b ? -1 : Number(a > b)));
  assert.deepEqual([ids, offsets], [sorted(ids), sorted(offsets)], 'the ids only grow');
  const folder = join(server.home, 'endpoints/logs/talk');
  await until('its logs are removed', () => !existsSync(folder));
});

/** Starts the command line against this server. */
function errand(t: TestContext, server: EndpointServer, args: string[]) {
  const child = spawn(process.execPath, [bin, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ERRAND_HOME: server.home },
  });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  let code: number | null | undefined;
  child.stdout.on('data', (part: Buffer) => (text += part.toString('utf8')));
  child.on('exit', (end) => (code = end));
  return { text: () => text, code: () => code };
}

function events(t: TestContext, server: EndpointServer, path: string) {
  const stop = new AbortController();
  t.after(() => stop.abort());
  let text = '';
  const headers = { authorization: `Bearer ${server.key}`, accept: 'text/event-stream' };
  const read = async () => {
    const response = await fetch(`${server.url}${path}`, { headers, signal: stop.signal });
    const decoder = new TextDecoder();
    for await (const part of response.body!) text += decoder.decode(part, { stream: true });
  };
  read().catch(() => {});
  return { text: () => text };
}
