// Toy operations behind the real HTTP interface on real sockets, and a plain client.
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { z } from '../../helpers/zod.ts';
import type { Dialect } from '../../../src/dialect.ts';
import { AppError } from '../../../src/errors.ts';
import { httpSettings } from '../../../src/config.ts';
import {
  createHttpInterface,
  type HttpInterface,
  type HttpInterfaceOptions,
} from '../../../src/interfaces/http/index.ts';
import { type Caller, defineOperation, Operations } from '../../../src/operation.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';

export const owner: Caller = {
  owner: 'me',
  scopes: new Set(['admin', 'read', 'run', 'worker']),
  admin: true,
  local: true,
};

export const callers: Record<string, Caller> = {
  'key-run': person('ann', 'key_1', ['read', 'run']),
  'key-read': person('bob', 'key_2', ['read']),
};

/** What the toy operations observed, for assertions on the server side. */
export interface Seen {
  aborted: string[];
  waiting: string[];
  release: () => void;
}

export function toys(seen: Seen): Operations {
  const operations = new Operations();
  const gate = new Promise<void>((resolve) => (seen.release = resolve));
  operations.add([
    defineOperation({
      name: 'echo',
      title: 'Echo',
      description: 'Returns its input.',
      effect: 'read',
      scope: 'read',
      input: z.object({ text: z.string().optional(), n: z.number().optional() }),
      output: z.object({ text: z.string().optional(), n: z.number().optional() }),
      run: async (input) => input,
    }),
    defineOperation({
      name: 'find_things',
      title: 'Find things',
      description: 'Returns its filter.',
      effect: 'read',
      scope: 'read',
      input: z.strictObject({
        status: z.array(z.enum(['queued', 'running'])).optional(),
        limit: z.int().min(1).max(100).default(20),
        deep: z.boolean().optional(),
        sizes: z.array(z.number()).optional(),
        text: z.union([z.string(), z.array(z.string())]).optional(),
        after: z.number().nullable().optional(),
        range: z.object({ from: z.number() }).optional(),
      }),
      output: z.record(z.string(), z.unknown()),
      http: { method: 'GET', path: '/api/things' },
      run: async (input) => input as Record<string, unknown>,
    }),
    defineOperation({
      name: 'get_thing',
      title: 'Get a thing',
      description: 'Returns one thing. Public things require no key.',
      effect: 'read',
      scope: 'public',
      input: z.object({ id: z.string().describe('The thing.'), force: z.boolean().optional() }),
      output: z.object({ id: z.string(), caller: z.string() }),
      http: { method: 'GET', path: '/api/things/{id}' },
      run: async ({ id }, { caller }) => ({ id, caller: caller?.owner ?? 'nobody' }),
    }),
    defineOperation({
      name: 'public_echo',
      title: 'Public echo',
      description: 'Returns the length of a text. Requires no key.',
      effect: 'read',
      scope: 'public',
      input: z.object({ text: z.string() }),
      output: z.object({ length: z.number() }),
      run: async ({ text }) => ({ length: text.length }),
    }),
    defineOperation({
      name: 'cancel_thing',
      title: 'Cancel a thing',
      description: 'Needs the scope run.',
      effect: 'destroy',
      scope: 'run',
      input: z.object({ id: z.string(), why: z.string(), force: z.boolean().optional() }),
      output: z.object({ id: z.string(), why: z.string(), force: z.boolean().optional() }),
      http: { method: 'POST', path: '/api/things/{id}/cancel' },
      run: async (input) => input,
    }),
    defineOperation({
      name: 'where',
      title: 'Where',
      description: 'Returns the folder of the caller.',
      effect: 'read',
      scope: 'read',
      input: z.object({}),
      output: z.object({ cwd: z.string().nullable(), local: z.boolean() }),
      http: { method: 'GET', path: '/api/where' },
      run: async (_, { origin, caller }) => ({
        cwd: origin?.cwd ?? null,
        local: caller?.local ?? false,
      }),
    }),
    defineOperation({
      name: 'break_things',
      title: 'Break',
      description: 'Throws in every way.',
      effect: 'write',
      scope: 'read',
      input: z.object({ how: z.string() }),
      output: z.object({}),
      run: async ({ how }) => {
        if (how === 'plain') throw new Error('secret detail');
        throw new AppError('wrongState', 'It is over.', { hint: 'Retry it.', data: { id: 'x' } });
      },
    }),
    defineOperation({
      name: 'wait_thing',
      title: 'Wait',
      description: 'Waits until it is released or the caller disconnects.',
      effect: 'read',
      scope: 'read',
      input: z.object({ name: z.string() }),
      output: z.object({ name: z.string() }),
      run: async ({ name }, { signal }) => {
        seen.waiting.push(name);
        signal.addEventListener('abort', () => seen.aborted.push(name));
        await gate;
        return { name };
      },
    }),
    defineOperation({
      name: 'tree',
      title: 'Tree',
      description: 'Has a recursive schema.',
      effect: 'read',
      scope: 'read',
      input: z.object({ root: treeNode }),
      output: z.object({ root: treeNode, count: z.number() }),
      run: async ({ root }) => ({ root, count: 1 }),
    }),
    defineOperation({
      name: 'find_either',
      title: 'Find either',
      description: 'Finds by number or by flag.',
      effect: 'read',
      scope: 'read',
      input: z.union([z.object({ number: z.number() }), z.object({ flag: z.boolean() })]),
      output: z.unknown(),
      http: { method: 'GET', path: '/api/either' },
      run: async (input) => input,
    }),
    counting(seen),
  ]);
  return operations;
}

interface TreeNode {
  name: string;
  children?: TreeNode[] | undefined;
}

const treeNode: z.ZodType<TreeNode> = z.lazy(() =>
  z.object({ name: z.string(), children: z.array(treeNode).optional() }),
);

/** Streams numbers after the cursor. With `forever` the stream then stays open until the caller disconnects. */
function counting(seen: Seen) {
  return defineOperation({
    name: 'count',
    title: 'Count',
    description: 'Counts up.',
    effect: 'read',
    scope: 'read',
    input: z.strictObject({
      to: z.number(),
      cursor: z.number().default(0),
      forever: z.boolean().optional(),
      fail: z.string().optional(),
    }),
    output: z.object({ to: z.number() }),
    http: { method: 'GET', path: '/api/count' },
    run: async ({ to }) => ({ to }),
    async *stream({ to, cursor, forever, fail }, { signal }) {
      if (fail === 'first') throw new AppError('notFound', 'The counter does not exist.');
      for (let n = cursor + 1; n <= to; n++) yield { event: 'number', data: { n }, id: String(n) };
      if (fail === 'last') throw new AppError('gone', 'The counter is gone.');
      if (fail === 'never') yield { event: 'end', data: { counted: to } };
      if (!forever) return;
      await new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => resolve(), { once: true }),
      );
      seen.aborted.push('count');
    },
  });
}

const toyDialect: Dialect = {
  name: 'toy',
  routes: [
    {
      method: 'POST',
      path: '/v2/{endpointId}/run',
      auth: 'key',
      maxBodyBytes: 100,
      handle: async (request, { operations, context }) => ({
        status: 202,
        headers: { 'x-toy': '1' },
        body: {
          endpoint: request.params.endpointId,
          owner: request.caller?.owner,
          echo: await operations.call('echo', request.json(), context),
        },
      }),
    },
    {
      method: 'GET',
      path: '/v2/{endpointId}/files/{rest*}',
      auth: 'none',
      handle: async ({ params, baseUrl, query }) => ({
        status: 200,
        body: `${params.endpointId} ${params.rest} ${baseUrl} ${query.get('q')}`,
      }),
    },
    {
      method: 'GET',
      path: '/v2/{endpointId}/stream',
      auth: 'key',
      handle: async () => ({
        status: 200,
        headers: { 'content-type': 'text/plain' },
        stream: (async function* () {
          yield 'one ';
          yield Buffer.from('two');
        })(),
      }),
    },
    {
      method: 'GET',
      path: '/v2/bytes',
      auth: 'none',
      handle: async () => ({ status: 200, body: Buffer.from([0, 255]) }),
    },
  ],
};

export interface Kit {
  httpInterface: HttpInterface;
  seen: Seen;
  port: number;
  url: string;
  socketPath: string;
}

/** Limits that a test does not set have their default value. */
type KitOptions = Partial<Omit<HttpInterfaceOptions, 'limits'>> & {
  limits?: Partial<HttpInterfaceOptions['limits']>;
};

export async function startKit({ limits = {}, ...more }: KitOptions = {}): Promise<Kit> {
  const seen: Seen = { aborted: [], waiting: [], release: () => {} };
  const httpInterface = createHttpInterface({
    operations: toys(seen),
    dialects: [toyDialect],
    authenticate: async (key) => callers[key],
    owner,
    version: '1.2.3',
    clock: systemClock,
    log: silentLog,
    limits: httpSettings.parse(limits),
    ...more,
  });
  const { port, url } = await httpInterface.listenTcp({ port: 0, host: '127.0.0.1' });
  const folder = mkdtempSync(join(tmpdir(), 'errand-http-'));
  const socketPath = join(folder, 's');
  await httpInterface.listenSocket(socketPath);
  after(async () => {
    seen.release();
    await httpInterface.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return { httpInterface, seen, port, url, socketPath };
}

export interface HttpResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  // Untyped, because tests read any field.
  json: Record<string, unknown>;
}

export interface Call {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  /** Uses the private socket instead of TCP. */
  socketPath?: string;
  key?: string;
}

/** Uses node:http, because fetch does not allow setting Host or Origin. */
export function call(port: number, request: Call): Promise<HttpResponse> {
  const { path, body, key, socketPath } = request;
  const { method = body === undefined ? 'GET' : 'POST' } = request;
  const headers = {
    ...(key ? { authorization: `Bearer ${key}` } : {}),
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...request.headers,
  };
  return new Promise((resolve, reject) => {
    const where = socketPath ? { socketPath } : { host: '127.0.0.1', port };
    const sent = httpRequest({ ...where, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = String(response.headers['content-type']).includes('json');
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text,
          json: isJson && text !== '' ? (JSON.parse(text) as Record<string, unknown>) : {},
        });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

function person(name: string, keyId: string, scopes: ('read' | 'run')[]): Caller {
  return { owner: name, scopes: new Set(scopes), admin: false, local: false, keyId };
}
