// The matrix rows for dialect routes: each route is called with objects that the bound keys can reach (endpoint mine, a hire
// of the wallet), so that a rejection is caused by the key and not by the object.
import type { World } from './world.ts';

export interface RouteInput {
  params?: Record<string, string>;
  query?: string;
  body?: unknown;
}

type InputFactory = (world: World) => RouteInput | Promise<RouteInput>;

/** They respond when something happens or when the server stops. */
export const heldRoutes = new Set([
  'GET /v2/{endpointId}/job-stop/{workerId}',
  'GET /v2/serverless/{id}/workers/{workerId}/logs',
  'GET /v2/{endpointId}/openai/{rest*}',
  'POST /v2/{endpointId}/openai/{rest*}',
]);

const input = { input: { n: 1 } };
const plain: InputFactory = () => ({});
const say =
  (body: unknown): InputFactory =>
  () => ({ body });
const site =
  (more: object = {}): InputFactory =>
  (world) => ({ body: { url: world.site, ...more } });
const query =
  (text: string): InputFactory =>
  () => ({ query: text });
const search: InputFactory = () => ({ query: 'q=x', body: { query: 'x' } });
const endpointJob: InputFactory = async ({ make }) => ({
  params: { jobId: await make.endpointJob('mine') },
});
const waiting: InputFactory = async (world) => ({
  ...(await endpointJob(world)),
  query: 'wait=1000',
});
const batch =
  (body?: unknown): InputFactory =>
  async ({ make }) => ({
    params: { batchId: await make.batch('mine') },
    ...(body === undefined ? {} : { body }),
  });
const posted: InputFactory = async ({ make }) => ({
  params: { jobId: await make.endpointJob('mine') },
  body: { output: 1 },
});
const taken: InputFactory = async ({ make }) => {
  await make.endpointJob('mine');
  return {};
};
const crawl: InputFactory = async ({ make }) => ({ params: { id: await make.webJob() } });
const searchJob: InputFactory = async ({ make }) => ({ params: { job_id: await make.webJob() } });
const hire =
  (body?: object): InputFactory =>
  async ({ make, wallets }) => ({
    params: { jobId: await make.hire(wallets.mine) },
    ...(body ? { body } : {}),
  });
/** Routes that both Firecrawl API versions have. */
function firecrawl(version: string): Record<string, InputFactory> {
  const root = `/firecrawl/${version}`;
  const job = ['GET', 'DELETE'].flatMap((method) => [
    `${method} ${root}/crawl/{id}`,
    `${method} ${root}/batch/scrape/{id}`,
  ]);
  const errors = (version === 'v1' ? ['GET', 'DELETE'] : ['GET']).flatMap((method) => [
    `${method} ${root}/crawl/{id}/errors`,
    `${method} ${root}/batch/scrape/{id}/errors`,
  ]);
  return {
    [`POST ${root}/scrape`]: site(),
    [`POST ${root}/map`]: site(),
    [`POST ${root}/crawl`]: site({ limit: 1 }),
    [`POST ${root}/batch/scrape`]: (world) => ({ body: { urls: [world.site] } }),
    [`POST ${root}/extract`]: (world) => ({
      body: { urls: [world.site], schema: { type: 'object', properties: {} } },
    }),
    [`POST ${root}/search`]: say({ query: 'x' }),
    ...Object.fromEntries(
      [...job, ...errors, `GET ${root}/extract/{id}`].map((name) => [name, crawl]),
    ),
  };
}
const wallet =
  (body?: object): InputFactory =>
  ({ wallets }) => ({
    params: { walletId: wallets.mine, address: wallets.mine },
    ...(body ? { body } : {}),
  });

/** They wait for a job, which is the same for all keys. */
export const waitingRoutes = /sync/;

/** Input for routes that need more than their path. Any other route is called with endpoint mine. */
const inputs: Record<string, InputFactory> = {
  'POST /v2/{endpointId}/run': say(input),
  'POST /v2/{endpointId}/runsync': () => ({ query: 'wait=1000', body: input }),
  'GET /v2/{endpointId}/status/{jobId}': endpointJob,
  'POST /v2/{endpointId}/status/{jobId}': endpointJob,
  'GET /v2/{endpointId}/status-sync/{jobId}': waiting,
  'POST /v2/{endpointId}/status-sync/{jobId}': waiting,
  'GET /v2/{endpointId}/stream/{jobId}': cancelledJob,
  'POST /v2/{endpointId}/stream/{jobId}': cancelledJob,
  'POST /v2/{endpointId}/cancel/{jobId}': endpointJob,
  'POST /v2/{endpointId}/retry/{jobId}': endpointJob,
  'GET /v2/{endpointId}/job-take/{workerId}': taken,
  'GET /v2/{endpointId}/job-take-batch/{workerId}': taken,
  'POST /v2/{endpointId}/job-done/{workerId}/{jobId}': posted,
  'POST /v2/{endpointId}/job-stream/{workerId}/{jobId}': posted,
  'POST /v2/{endpointId}/batch': say([input]),
  'GET /v2/{endpointId}/batch/{batchId}': batch(),
  'PUT /v2/{endpointId}/batch/{batchId}': batch({ name: 'a' }),
  'POST /v2/{endpointId}/batch/{batchId}/requests': batch({ requests: [input] }),
  'GET /v2/{endpointId}/batch/{batchId}/requests': batch(),
  'DELETE /v2/{endpointId}/batch/{batchId}/requests/{jobId}': drafted,
  'POST /v2/{endpointId}/batch/{batchId}/finalize': batch(),
  'POST /v2/{endpointId}/batch/{batchId}/cancel': batch(),
  'POST /v2/{endpointId}/openai/{rest*}': say({ model: 'x' }),
  'POST /v2/hooks/{attemptId}': query('token=x'),
  'POST /v2/serverless': say({ name: 'a', type: 'QUEUE', scaling: {} }),
  'PATCH /v2/serverless/{id}': say({ timeout: 300_000 }),
  'DELETE /v2/serverless/{id}': async ({ make }) => ({ params: { id: await make.endpoint() } }),
  'GET /v2/serverless/{id}/workers/{workerId}/logs': query('tail=1'),

  ...firecrawl('v1'),
  ...firecrawl('v2'),
  'POST /firecrawl/v2/agent': say({ prompt: 'x' }),
  'GET /firecrawl/v2/agent/{id}': crawl,
  'DELETE /firecrawl/v2/agent/{id}': crawl,
  ...Object.fromEntries(
    ['crawl', 'map', 'markdown', 'screenshot'].map((name) => [
      `POST /searchclaw/v1/${name}`,
      site(),
    ]),
  ),
  'POST /searchclaw/v1/browse': site({ actions: [{ type: 'wait', ms: 1 }] }),
  'POST /searchclaw/v1/extract': site({ schema: { title: 'string' } }),
  'POST /searchclaw/v1/agent': say({ prompt: 'x' }),
  'POST /searchclaw/v1/pipeline': say({ query: 'x', schema: { title: 'string' } }),
  ...Object.fromEntries(
    ['search', 'search/images', 'search/news'].map((name) => [
      `POST /searchclaw/v1/${name}`,
      search,
    ]),
  ),
  ...Object.fromEntries(
    ['images', 'news', 'search', 'search/ai', 'search/images', 'search/news', 'suggest'].map(
      (name) => [`GET /searchclaw/v1/${name}`, query('q=x')],
    ),
  ),
  'GET /searchclaw/v1/jobs/{job_id}': searchJob,

  'POST /cardzero/v1/jobs': (world) => ({
    body: {
      providerWalletId: world.wallets.bob,
      evaluatorRule: { type: 'manual' },
      budgetUsdc: '1000',
      title: 'a',
      description: 'b',
      expiredAt: Math.floor(Date.now() / 1000) + 200_000,
    },
  }),
  'POST /cardzero/v1/jobs/{jobId}/fund': hire({}),
  'POST /cardzero/v1/jobs/{jobId}/submit': hire({ contentHash: `0x${'a'.repeat(64)}` }),
  'POST /cardzero/v1/jobs/{jobId}/refund': hire({}),
  'GET /cardzero/v1/jobs/{jobId}': hire(),
  'GET /cardzero/v1/jobs/{jobId}/spec': hire(),
  'GET /cardzero/v1/jobs/by-wallet/{walletId}': wallet(),
  'POST /cardzero/v1/auth/claim': async ({ make }) => ({ body: { claimKey: await make.claim() } }),
  'GET /cardzero/v1/payments/{paymentId}': ({ make }) => ({ params: { paymentId: make.payment } }),
  'POST /cardzero/v1/payments': ({ wallets }) => ({
    body: { to: wallets.bob, amount: '0.1', walletId: wallets.mine },
  }),
  'POST /cardzero/v1/x402/pay': (world) => ({
    body: { url: world.site, maxAmount: '1', recipient: world.wallets.bob },
  }),
  // It revokes the keys of the wallet, so it must not use the wallet that a key of the table is bound to.
  'POST /cardzero/v1/wallets/{walletId}/api-key/rotate': ({ wallets }) => ({
    params: { walletId: wallets.purse },
  }),
  'PATCH /cardzero/v1/wallets/{walletId}/name': wallet({ name: 'zq-wallet' }),
  'POST /cardzero/v1/wallets/{walletId}/webhook': (world) => ({
    params: { walletId: world.wallets.mine },
    body: { url: `${world.site}/h` },
  }),
};

async function drafted({ make, call }: World): Promise<RouteInput> {
  const batchId = await make.batch('mine');
  const { jobs } = await call<{ jobs: { id: string }[] }>('list_batch_jobs', { batchId });
  return { params: { batchId, jobId: jobs[0]!.id } };
}

async function cancelledJob(world: World): Promise<RouteInput> {
  const jobId = await world.make.endpointJob('mine');
  await world.call('cancel_job', { id: jobId });
  return { params: { jobId } };
}

/** The path and body of one call of the route. */
export async function routeInput(
  name: string,
  world: World,
): Promise<{ path: string; body?: unknown }> {
  const { params = {}, query: search = '', body } = await (inputs[name] ?? plain)(world);
  const values: Record<string, string> = {
    endpointId: 'mine',
    id: 'mine',
    workerId: 'w1',
    attemptId: 'a',
    buildId: 'a',
    jobId: 'job_none',
    walletId: world.wallets.mine,
    address: world.wallets.mine,
    rest: 'v1/models',
    ...params,
  };
  const path = name
    .slice(name.indexOf(' ') + 1)
    .replace(/\{(\w+)\*?\}/g, (_, key: string) => values[key] ?? 'none');
  return {
    path: search === '' ? path : `${path}?${search}`,
    ...(body === undefined ? {} : { body }),
  };
}

/** Every route with its own input. Remove entries that no dialect has any more. */
export const routesWithInput = (): string[] => Object.keys(inputs);
