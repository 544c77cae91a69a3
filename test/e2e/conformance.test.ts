// The official conformance suite against the fixtures, served through our MCP and HTTP interfaces: everything that the revisions
// 2026-07-28 and 2025-11-25 require, and every scenario of the tasks and skills extensions that can be run.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';

const root = join(import.meta.dirname, '..');
const suite = join(root, 'node_modules/@modelcontextprotocol/conformance');
const server = spawn(process.execPath, [join(root, 'fixtures/conformance-server.ts')], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let url: string;

before(async () => {
  [url] = (await once(createInterface({ input: server.stdout }), 'line')) as [string];
});

after(() => server.kill('SIGKILL'));

for (const [revision, path] of [
  ['2026-07-28', '/mcp'],
  ['2025-11-25', '/session'],
] as const) {
  test(`conforms to ${revision}`, async (t) => {
    const { code, output } = await runSuite(path, ['--requirements', revision], tempFolder(t));
    const results = scenarios(output);
    const required = requiredScenarios(revision);
    assert.ok(required.length >= 30);
    const isTask = (name: string) => name.startsWith('tasks-');
    const tasks = revision === '2026-07-28' ? [...results.keys()].filter(isTask) : [];
    assert.equal(tasks.length, revision === '2026-07-28' ? 10 : 0);
    const failed = [...required, ...tasks].filter((name) => !results.get(name));
    assert.deepEqual(failed, [], output);
    assert.equal(code, 0, output);
  });
}

for (const part of ['enumeration', 'manifest', 'directory'])
  test(`the skills extension conforms: ${part}`, async (t) => {
    const args = ['--scenario', `sep-2640-skills-${part}`];
    const { code, output } = await runSuite('/mcp', args, tempFolder(t));
    const [, passed, all] = /^Passed: (\d+)\/(\d+), 0 failed/m.exec(output) ?? [];
    assert.ok(passed !== undefined && Number(passed) >= 4 && passed === all, output);
    assert.equal(code, 0, output);
  });

async function runSuite(path: string, which: string[], folder: string) {
  const args = ['server', '--url', `${url}${path}`, ...which, '-o', folder, '--timeout', '120000'];
  const run = spawn(process.execPath, [join(suite, 'dist/index.js'), ...args], { cwd: folder });
  let output = '';
  for (const stream of [run.stdout, run.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(run, 'close')) as [number | null];
  return { code, output };
}

/** Reads scenario names and outcomes from the final summary. */
function scenarios(output: string): Map<string, boolean> {
  const summary = output.slice(output.indexOf('=== SUMMARY ==='));
  const lines = summary.matchAll(/^([✓✗]) ([\w-]+): \d+ passed, \d+ failed/gm);
  return new Map([...lines].map(([, mark, name]) => [name!, mark === '✓']));
}

function requiredScenarios(revision: string): string[] {
  const list = readFileSync(join(suite, `requirements/${revision}.yaml`), 'utf8');
  const section = /^server:\n((?: {2}- .*\n|\s*#.*\n|\n)+)/m.exec(list)![1]!;
  return [...section.matchAll(/^ {2}- ([\w-]+)/gm)].map(([, name]) => name!);
}
