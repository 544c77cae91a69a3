// A real server in this process with HTTP on a free port, and a plain client for the RunPod API.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempFolder } from './folder.ts';
import { until } from './until.ts';

export const handlerFile = join(import.meta.dirname, '../fixtures/endpoint/handler.ts');

export interface ApiResponse {
  status: number;
  body: Record<string, unknown>;
  headers: Headers;
}

export interface EndpointServer {
  url: string;
  key: string;
  home: string;
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<ApiResponse>;
  /** Calls save_endpoint over the API. */
  save(id: string, fields: Record<string, unknown>): Promise<Record<string, unknown>>;
  run(id: string, input: unknown, more?: Record<string, unknown>): Promise<string>;
  /** Waits for the job until it has a final RunPod status. */
  ended(id: string, jobId: string): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export async function startEndpoints(
  t: TestContext,
  options: { home?: string } = {},
): Promise<EndpointServer> {
  let stopped: Promise<void> | undefined;
  // Files that only need the client do not load the server.
  const { startServer } = await import('../../src/server.ts');
  let running: Awaited<ReturnType<typeof startServer>> | undefined;
  const stop = () => (stopped ??= running?.stop() ?? Promise.resolve());
  // Runs before the folder is removed, because hooks run in the order they were added.
  t.after(stop);
  const home = options.home ?? tempFolder(t);
  running = await startServer({ home, port: 0 });
  return { ...client(running.url!, running.key), home, stop };
}

const finalStatuses = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'];

export function client(url: string, key: string): Omit<EndpointServer, 'home' | 'stop'> {
  const call: EndpointServer['call'] = async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    return { status: response.status, body: json, headers: response.headers };
  };
  const expectOk = async (response: Promise<ApiResponse>) => {
    const { status, body } = await response;
    if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body;
  };
  return {
    url,
    key,
    call,
    save: (id, fields) => expectOk(call('POST', '/api/endpoints', { id, ...fields })),
    run: async (id, input, more = {}) =>
      (await expectOk(call('POST', `/v2/${id}/run`, { input, ...more }))).id as string,
    ended: (id, jobId) =>
      until(`${jobId} is over`, async () => {
        const job = await expectOk(call('GET', `/v2/${id}/status/${jobId}`));
        return finalStatuses.includes(job.status as string) ? job : undefined;
      }),
  };
}
