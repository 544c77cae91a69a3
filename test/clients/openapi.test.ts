// Generated clients: the calls of docs/http.md compile and run with openapi-typescript + openapi-fetch and with hey-api.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { startServer, type TestServer } from '../helpers/server.ts';

const folder = import.meta.dirname;
const run = promisify(execFile);

/** Inside this package, so that the generated code finds its dependencies. */
function project(t: TestContext): string {
  const path = mkdtempSync(join(folder, 'generated-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const tool = (name: string, args: string[], cwd: string) =>
  run(process.execPath, [join(folder, 'node_modules', '.bin', name), ...args], { cwd });

/** Fetches the document without a key. */
async function save(server: TestServer, path: string): Promise<string> {
  const response = await fetch(`${server.url}/openapi.json`);
  assert.equal(response.status, 200);
  const file = join(path, 'openapi.json');
  writeFileSync(file, await response.text());
  return file;
}

async function compileAndRun(path: string, server: TestServer, code: string): Promise<string> {
  writeFileSync(join(path, 'calls.ts'), code);
  const options = {
    module: 'nodenext',
    moduleResolution: 'nodenext',
    target: 'es2024',
    lib: ['es2024', 'dom', 'dom.iterable'],
    strict: true,
    skipLibCheck: true,
    types: [],
    outDir: 'out',
  };
  writeFileSync(join(path, 'package.json'), '{"type": "module"}');
  writeFileSync(
    join(path, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, include: ['**/*.ts'] }),
  );
  const compiled = await tool('tsc', ['-p', '.'], path).catch((error: unknown) => error);
  const { code: exit = 0, stdout = '' } = compiled as { code?: number; stdout?: string };
  assert.equal(exit, 0, stdout);
  const { stdout: printed } = await run(
    process.execPath,
    [join(path, 'out', 'calls.js'), server.url, server.key],
    { cwd: path },
  );
  return printed.trim();
}

const argv = `
declare const process: { argv: string[] };
const [baseUrl, key] = process.argv.slice(2) as [string, string];
`;

test('openapi-typescript and openapi-fetch: run a command, read the job, its output and an error', async (t) => {
  const server = await startServer(t);
  const path = project(t);
  await tool('openapi-typescript', [await save(server, path), '-o', join(path, 'api.ts')], path);
  const printed = await compileAndRun(
    path,
    server,
    `import createClient from 'openapi-fetch';
import type { paths } from './api.js';
${argv}
const client = createClient<paths>({ baseUrl, headers: { authorization: \`Bearer \${key}\` } });
const started = await client.POST('/api/commands', { body: { command: 'echo hi; exit 3', waitMs: 20_000 } });
const id: string = started.data!.id;
const job = await client.GET('/api/jobs/{id}', { params: { path: { id } } });
const status: string = job.data!.status;
const output = await client.GET('/api/jobs/{id}/output', { params: { path: { id } } });
const list = await client.GET('/api/jobs', { params: { query: { limit: 5 } } });
const missing = await client.GET('/api/jobs/{id}', { params: { path: { id: 'job_0000000000000000' } } });
const code: string = missing.error!.code;
const wallet = await client.POST('/cardzero/v1/wallets', { body: {} });
const chainAddress: string = wallet.data!.chainAddress;
console.log(JSON.stringify([status, output.response.status, list.data!.jobs.length, code, chainAddress.slice(0, 2)]));
`,
  );
  assert.deepEqual(JSON.parse(printed), ['failed', 200, 1, 'notFound', '0x']);
});

test('hey-api: run a command and read the job and an error', async (t) => {
  const server = await startServer(t);
  const path = project(t);
  mkdirSync(join(path, 'api'));
  const input = await save(server, path);
  await tool(
    'openapi-ts',
    ['-i', input, '-o', join(path, 'api'), '-c', '@hey-api/client-fetch'],
    path,
  );
  const printed = await compileAndRun(
    path,
    server,
    `import { client } from './api/client.gen.js';
import { getJob, runCommand } from './api/sdk.gen.js';
${argv}
client.setConfig({ baseUrl: baseUrl as '/', auth: key });
const started = await runCommand({ body: { command: 'echo hi', waitMs: 20_000 } });
const id: string = started.data!.id;
const job = await getJob({ path: { id } });
const status: string = job.data!.status;
const missing = await getJob({ path: { id: 'job_0000000000000000' } });
const code: string = missing.error!.code;
console.log(JSON.stringify([status, code]));
`,
  );
  assert.deepEqual(JSON.parse(printed), ['completed', 'notFound']);
});
