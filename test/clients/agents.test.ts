// Complete conversations of real agent clients with a scripted model: what the model reads about a failed job.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { bin } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';
import { clients, startClient, versionOf, type Client } from './agents/clients.ts';
import { startModel, type Model, type Script } from './agents/model.ts';

/** Ends after four seconds with exit code 3; its error is in the middle of 9 kB of output. */
const failingSuite = `pass() { for i in $(seq $1 $2); do echo "PASS tests/mod$i.test.ts ($i ms)"; done; }
pass 1 200; sleep 4
echo "FAIL tests/cart.test.ts"; echo "  Expected: 21"; echo "  Received: 20"
echo "AssertionError [ERR_ASSERTION]: 20 !== 21"; echo "    at cart (tests/cart.test.ts:14:23)"
pass 201 260; exit 3`;
const errorLines = [
  'FAIL tests/cart.test.ts',
  'Expected: 21',
  'Received: 20',
  'cart.test.ts:14:23',
];
const lastWords = 'The suite failed with exit code 3.';

/** Finds the job id in the text that the model reads. */
const jobIn = (shown: readonly string[]) => /job_\w+/.exec(shown.join('\n'))?.[0];

const runAndRead: Script = {
  tools: ['run_command', 'wait_for_jobs', 'read_output'],
  next: (shown) => {
    const id = jobIn(shown);
    if (shown.length === 0)
      return { call: 'run_command', args: { command: failingSuite, waitMs: 500 } };
    if (shown.length === 1) return { call: 'wait_for_jobs', args: { ids: [id], waitMs: 40_000 } };
    if (shown.length === 2) return { call: 'read_output', args: { id, mode: 'errors' } };
    return { say: lastWords };
  },
};

async function isMissing(t: TestContext, client: Client): Promise<boolean> {
  const found = await versionOf(t, client);
  if ('missing' in found) t.skip(found.missing);
  else t.diagnostic(`${client.name} ${found.version}`);
  return 'missing' in found;
}

async function converse(t: TestContext, client: Client, script: Script): Promise<Model> {
  const { home } = await sharedServer();
  const model = await startModel(script);
  t.after(model.close);
  const session = await startClient(t, client, { model: model.url, home });
  const { code, output } = await session.exited;
  assert.deepEqual(model.problems(), [], output);
  assert.equal(code, 0, output);
  return model;
}

function assertShowsFailure(text: string): void {
  assert.match(text, /"exitCode":3\b|exit code 3\b/);
  for (const line of errorLines) assert.ok(text.includes(line), `${line} is missing in: ${text}`);
}

/** Checks the maximum cost in docs/mcp.md, "Measured with real clients". */
function assertDocumented(t: TestContext, what: string, model: Model): void {
  const sizes = model.shown().map(({ length }) => length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  t.diagnostic(`${model.turns()} turns, ${sizes.join(' + ')} = ${total} characters`);
  const page = readFileSync(join(import.meta.dirname, '../../docs/mcp.md'), 'utf8');
  const row = new RegExp(`^\\| ${what} \\| (\\d+) \\| ([\\d,]+) \\|`, 'm').exec(page);
  assert.ok(row, `docs/mcp.md has no row for ${what}`);
  const [turns, characters] = row.slice(1).map((text) => Number(text.replaceAll(',', '')));
  assert.ok(model.turns() <= turns!, `${model.turns()} turns, documented ${turns}`);
  assert.ok(total <= characters!, `${total} characters, documented ${characters}`);
}

for (const client of clients)
  test(`${client.name} shows its model how a job failed`, async (t) => {
    if (await isMissing(t, client)) return;
    const model = await converse(t, client, runAndRead);
    const [started, waited, read] = model.shown();
    assert.match(started!, /running/);
    assertShowsFailure(waited!);
    assertShowsFailure(read!);
    assertDocumented(t, client.name, model);
  });

test('Claude Code ends its turn, is woken by `errand watch`, and reads the failure in four turns', async (t) => {
  const [client] = clients;
  if (await isMissing(t, client!)) return;
  const { home } = await sharedServer();
  const name = 'wakes-the-agent';
  // From the first event on: the job may end before the watcher runs.
  const watcher = [process.execPath, bin, 'watch', '--once', '--name', name, '--cursor', '0'];
  const command = [...watcher, '--home', home].map((word) => `'${word}'`).join(' ');
  const model = await converse(t, client!, {
    tools: ['run_command'],
    next: (shown, notices) => {
      if (notices.length > 0) return { say: lastWords };
      if (shown.length === 0)
        return {
          call: 'run_command',
          args: { command: failingSuite, name, waitMs: 0 },
          load: 'Monitor',
        };
      if (shown.length === 1)
        return {
          call: 'Monitor',
          args: { command, description: 'the test suite', timeout_ms: 120_000, persistent: false },
        };
      return { say: 'I continue when the suite has ended.' };
    },
  });
  const notice = model.shown().at(-1)!;
  assert.match(notice, /"wakes-the-agent" failed with exit code 3/);
  for (const line of errorLines.slice(0, 3)) assert.ok(notice.includes(line), notice);
  assert.equal(model.turns(), 4);
  assertDocumented(t, 'Claude Code, woken', model);
});

const outputFile = (shown: readonly string[]) => /\/\S+\.output/.exec(shown[0]!)![0];

/** The same work with the client's own tools, for comparison. */
const ownShell: Record<string, Script['next']> = {
  'Claude Code': (shown) => {
    const description = 'Run the tests';
    if (shown.length === 0)
      return {
        call: 'Bash',
        args: { command: failingSuite, description, run_in_background: true },
      };
    const wait = () => `until grep -q 'exited with' ${outputFile(shown)}; do sleep 0.2; done`;
    if (shown.length === 1) return { call: 'Bash', args: { command: wait(), description } };
    if (shown.length === 2) return { call: 'Read', args: { file_path: outputFile(shown) } };
    return { say: lastWords };
  },
  Codex: (shown) => {
    if (shown.length === 0)
      return { call: 'exec_command', args: { cmd: failingSuite, yield_time_ms: 500 } };
    const session_id = Number(/session ID (\d+)/.exec(shown[0]!)?.[1]);
    if (shown.length === 1)
      return { call: 'write_stdin', args: { session_id, chars: '', yield_time_ms: 40_000 } };
    return { say: lastWords };
  },
};

for (const client of clients.filter(({ name }) => name in ownShell))
  test(`the shell tool of ${client.name} shows the same failure in more characters`, async (t) => {
    if (await isMissing(t, client)) return;
    const model = await converse(t, client, { tools: [], next: ownShell[client.name]! });
    assert.match(model.shown().at(-1)!, /exited with code 3/);
    assertDocumented(t, `${client.name}, own shell`, model);
  });

test('another client reads the true result of a job whose client was killed', async (t) => {
  const [first, second] = clients;
  if ((await isMissing(t, first!)) || (await isMissing(t, second!))) return;
  const { home, cli } = await sharedServer();
  const name = 'picked-up';
  const begins = await startModel({
    tools: ['run_command', 'wait_for_jobs'],
    next: (shown) =>
      shown.length === 0
        ? { call: 'run_command', args: { command: failingSuite, name, waitMs: 0 } }
        : { call: 'wait_for_jobs', args: { ids: [jobIn(shown)], waitMs: 40_000 } },
  });
  t.after(begins.close);
  const session = await startClient(t, first!, { model: begins.url, home });
  await until('the job runs', async () => /running/.test((await cli('show', name)).stdout));
  session.kill();
  await session.exited;
  const model = await converse(t, second!, {
    tools: ['list_jobs', 'wait_for_jobs'],
    next: (shown) => {
      if (shown.length === 0) return { call: 'list_jobs', args: { limit: 1 } };
      if (shown.length === 1)
        return { call: 'wait_for_jobs', args: { ids: [jobIn(shown)], waitMs: 40_000 } };
      return { say: lastWords };
    },
  });
  assertShowsFailure(model.shown()[1]!);
});
