// The rows of the authorization matrix: every operation and every dialect route with valid input. If the result depends on
// the object, an operation has several rows: ci and default are commands in these queues, mine is the endpoint that a key is
// bound to, alien another endpoint, hire an escrow job of the bound wallet, foreign one of another wallet.
import type { World } from './world.ts';

export interface OperationRow {
  operation: string;
  /** The object, if an operation has several rows. */
  about?: string;
  /** Called without HTTP on every store, because its input is not JSON. */
  way?: 'direct';
  /** Created for every cell, because a call may consume it. */
  input(world: World): object | Promise<object>;
}

type Input = OperationRow['input'];

const jobs: [about: string, id: (world: World) => Promise<string>][] = [
  ['ci', ({ make }) => make.command('ci')],
  ['default', ({ make }) => make.command('default')],
  ['bob', ({ make }) => make.bobJob()],
  ['mine', ({ make }) => make.endpointJob('mine')],
  ['alien', ({ make }) => make.endpointJob('alien')],
  ['batch mine', ({ make }) => make.batch('mine')],
  ['web', ({ make }) => make.webJob()],
  ['hire', ({ make, wallets }) => make.hire(wallets.mine)],
  ['foreign', ({ make, wallets }) => make.hire(wallets.purse)],
  ['public', ({ make }) => make.openHire()],
];

const one = (operation: string, input: Input, about?: string): OperationRow =>
  about === undefined ? { operation, input } : { operation, about, input };

/** One row per object. */
const each = (
  operation: string,
  objects: readonly [string, (world: World) => Promise<string> | string][],
  input: (id: string, world: World) => object,
): OperationRow[] =>
  objects.map(([about, id]) => ({
    operation,
    about,
    input: async (world) => input(await id(world), world),
  }));

const some = (...names: string[]) => jobs.filter(([name]) => names.includes(name));
const kindsOfJobs = some('ci', 'default', 'bob', 'mine', 'alien', 'web', 'hire', 'foreign');
const commands = some('ci', 'default', 'bob');
const endpointJobs = some('mine', 'alien');
const endpoints: [string, (world: World) => string][] = [
  ['mine', () => 'mine'],
  ['alien', () => 'alien'],
];
const batches: typeof jobs = [
  ['mine', ({ make }) => make.batch('mine')],
  ['alien', ({ make }) => make.batch('alien')],
];
const hires = some('hire', 'foreign');
const wallets: [string, (world: World) => string][] = [
  ['own', (world) => world.wallets.mine],
  ['another', (world) => world.wallets.purse],
];
const worker = { workerId: 'w1' };
const key: Input = async ({ make }) => ({ id: await make.key({ kinds: ['command'] }) });

const workInput: Record<string, object> = {
  fund_work: { expectedBudget: '1000' },
  counter_work: { budget: '1000' },
  submit_work: { content: 'x' },
  evaluate_work: { verdict: 'approve', reason: 'x' },
  dispute_work: { reason: 'x' },
};

export const operationRows: OperationRow[] = [
  ...each('get_job', jobs, (id) => ({ id, includeInput: true, includeAttempts: true })),
  ...each('list_events', jobs, (id) => ({ id })),
  ...each('wait_for_jobs', jobs, (id) => ({ ids: [id], timeoutMs: 0 })),
  ...each('cancel_job', jobs, (id) => ({ id, graceMs: 0 })),
  ...each('retry_job', kindsOfJobs, (id) => ({ id })),
  ...each('pin_job', kindsOfJobs, (id) => ({ id })),
  ...each('rerun_job', kindsOfJobs, (id) => ({ id })),
  ...each('delete_job', kindsOfJobs, (id) => ({ id })),
  one('list_jobs', () => ({ limit: 200 })),
  one('watch_jobs', () => ({})),
  one('count_jobs', () => ({})),
  one('get_stats', () => ({})),
  one('change_jobs', () => ({ action: 'cancel', filter: {}, dryRun: true })),
  one('list_queues', () => ({})),
  ...each(
    'set_queue',
    [
      ['ci', () => 'ci'],
      ['other', () => 'other'],
    ],
    (name) => ({ kind: 'command', name }),
  ),
  ...each('create_webhook', some('ci', 'mine', 'hire'), (jobId, { site }) => ({
    url: `${site}/h`,
    jobId,
  })),
  one('create_webhook', ({ site }) => ({ url: `${site}/h` }), 'all jobs'),
  one('list_webhooks', () => ({})),
  ...each('delete_webhook', some('ci', 'mine'), (id) => ({ id })).map(hooked),
  one('delete_webhook', async ({ make }) => ({ id: await make.hook() }), 'all jobs'),
  ...each('list_deliveries', some('ci', 'mine'), (id) => ({ id })).map(hooked),
  one('replay_delivery', ({ make }) => ({ id: make.delivered('ci') }), 'ci'),
  one('replay_delivery', ({ make }) => ({ id: make.delivered('default') }), 'default'),
  one('create_key', () => ({ owner: 'ann' }), 'without limits'),
  one('create_key', () => ({ owner: 'bob', kinds: ['command'], queues: ['ci'] }), 'another owner'),
  one('create_key', () => ({ owner: 'ann', kinds: ['command'] }), 'command'),
  one('create_key', () => ({ owner: 'ann', queues: ['ci'] }), 'ci'),
  one(
    'create_key',
    () => ({ owner: 'ann', subject: 'endpoint:mine', kinds: ['endpoint'] }),
    'mine',
  ),
  one('list_keys', () => ({})),
  one('revoke_key', key, 'command'),
  one('revoke_key', async ({ make }) => ({ id: await make.key() }), 'without limits'),
  one('rotate_key', key, 'command'),
  one('rotate_key', async ({ make }) => ({ id: await make.key() }), 'without limits'),
  one('create_login_code', () => ({})),
  one('get_caller', () => ({})),
  one('list_sessions', () => ({})),
  one('revoke_session', async ({ make }) => ({ id: await make.session('ann') }), 'ann'),
  one('revoke_session', async ({ make }) => ({ id: await make.session('bob') }), 'bob'),
  one('list_nodes', () => ({})),
  ...['cordon_node', 'drain_node', 'uncordon_node', 'forget_node'].map((name) =>
    one(name, ({ make }) => ({ id: make.node })),
  ),
  one('watch_job', async ({ make }) => ({ id: await make.webJob(), until: {} })),
  one('get_server', () => ({})),
  one('stop_server', () => ({ ifIdle: true })),
  one('backup_store', () => ({ path: '/nonexistent/backup' })),

  ...each(
    'run_command',
    [
      ['ci', () => 'ci'],
      ['default', () => 'default'],
    ],
    (queue) => ({
      argv: ['true'],
      queue,
      runAt: '2999-01-01T00:00:00Z',
      waitMs: 0,
    }),
  ),
  ...each('run_command', [['after another', ({ make }) => make.command('default')]], (id) => ({
    argv: ['true'],
    queue: 'ci',
    after: [id],
    waitMs: 0,
  })),
  ...each('read_output', commands, (id) => ({ id })),
  ...each('send_input', commands, (id) => ({ id, text: 'x' })),
  ...each('send_signal', commands, (id) => ({ id, signal: 'SIGTERM' })),
  ...each('resize_terminal', commands, (id) => ({ id, cols: 80, rows: 24 })),

  one('save_endpoint', () => ({ ttlMs: 20_000 }), 'new'),
  one('save_endpoint', () => ({ id: 'mine', ttlMs: 20_000 }), 'mine'),
  one('list_endpoints', () => ({})),
  ...each('get_endpoint', endpoints, (id) => ({ id })),
  one('delete_endpoint', async ({ make }) => ({ id: await make.endpoint() })),
  ...each('purge_queue', endpoints, (endpointId) => ({ endpointId })),
  ...each('list_releases', endpoints, (endpointId) => ({ endpointId })),
  ...each('list_workers', endpoints, (endpointId) => ({ endpointId })),
  ...each('read_worker_log', endpoints, (endpointId) => ({ endpointId })),
  ...each('run_endpoint', endpoints, (endpointId) => ({ endpointId, input: {} })),
  ...each('submit_endpoint_job', endpoints, (endpointId) => ({ endpointId, input: {} })),
  ...each('list_endpoint_jobs', endpoints, (endpointId) => ({ endpointId })),
  ...['get_endpoint_job', 'cancel_endpoint_job', 'retry_endpoint_job', 'drain_stream'].flatMap(
    (name) =>
      endpointJobs.map(([about, id]) =>
        one(
          name,
          async (world) => ({
            id: await id(world),
            endpointId: about,
            ...(name === 'drain_stream' ? { waitMs: 0 } : {}),
          }),
          about,
        ),
      ),
  ),
  ...each('follow_stream', endpointJobs, (id) => ({ id })),
  ...each('read_job_result', endpointJobs, (id) => ({ id })),
  ...each('take_jobs', endpoints, (endpointId) => ({ endpointId, ...worker, waitMs: 0 })),
  ...each('poll_stops', endpoints, (endpointId) => ({ endpointId, ...worker, waitMs: 0 })),
  ...each('ping_worker', endpoints, (endpointId) => ({ endpointId, ...worker })),
  // Their bodies are binary. Over HTTP they are called through the worker protocol routes.
  ...['finish_endpoint_job', 'add_stream_chunk'].flatMap((name) =>
    endpointJobs.map(([about, id]): OperationRow => ({
      operation: name,
      about,
      way: 'direct',
      input: async (world) => ({
        endpointId: about,
        ...worker,
        jobId: await id(world),
        body: Buffer.from('{"output":1}'),
      }),
    })),
  ),
  ...each('run_batch', endpoints, (endpointId) => ({ endpointId, inputs: [1] })),
  ...each('draft_batch', endpoints, (endpointId) => ({ endpointId, requests: [{ input: 1 }] })),
  ...each('list_batches', endpoints, (endpointId) => ({ endpointId })),
  ...batches.map(([about, id]) =>
    one(
      'change_batch',
      async (world) => ({ batchId: await id(world), endpointId: about, finalize: true }),
      about,
    ),
  ),
  ...each('get_batch', batches, (batchId) => ({ batchId })),
  ...each('list_batch_jobs', batches, (batchId) => ({ batchId })),
  ...each('cancel_batch', batches, (batchId) => ({ batchId })),
  one('notice_remote', () => ({ attemptId: 'a', token: 'b' })),

  ...['crawl_site', 'read_page', 'map_site', 'take_screenshot'].map((name) =>
    one(name, () => ({ url: 'ftp://example.com/' })),
  ),
  one('browse_page', () => ({ url: 'ftp://example.com/', actions: [{ type: 'snapshot' }] })),
  one('extract_data', () => ({ url: 'ftp://example.com/', schema: { title: 'string' } })),
  one('run_pipeline', () => ({ query: 'x', schema: { type: 'nonsense' }, waitMs: 0 })),
  one('run_agent', () => ({ prompt: 'x', schema: { type: 'nonsense' }, waitMs: 0 })),
  one('web_search', () => ({ query: 'x', waitMs: 0 })),
  one('web_usage', () => ({})),
  ...each('read_pages', some('web'), (id) => ({ id })),
  ...each('control_crawl', some('web'), (id) => ({ id, action: 'pause' })),
  ...each('submit_extraction', some('web'), (jobId) => ({ jobId, data: {} })),
  ...each('read_picture', some('web'), (id) => ({ id, file: 'a.png' })),

  ...each('post_work', wallets, (wallet, world) => ({
    wallet,
    provider: world.wallets.bob,
    budget: '1000',
    title: 'a',
    description: 'b',
    repeat: true,
  })),
  ...[
    'fund_work',
    'counter_work',
    'decline_work',
    'submit_work',
    'evaluate_work',
    'refund_work',
    'dispute_work',
  ].flatMap((name) =>
    hires.map(([about, id]) =>
      one(
        name,
        async (world) => ({
          id: await id(world),
          wallet: about === 'hire' ? world.wallets.mine : world.wallets.purse,
          ...workInput[name],
        }),
        about,
      ),
    ),
  ),
  ...each('read_work', some('hire', 'foreign', 'public'), (id) => ({ id })),
  ...each('list_postings', hires, (id) => ({ id })),
  ...each('list_work', wallets, (wallet) => ({ wallet, role: 'client' })),
  one('create_wallet', () => ({}), 'without key'),
  one('create_wallet', () => ({ withKey: true }), 'with key'),
  one('open_wallet', () => ({})),
  one('claim_wallet', async ({ make }) => ({ claimKey: await make.claim() })),
  one('get_wallet', () => ({}), 'all'),
  ...each('get_wallet', wallets, (wallet) => ({ wallet })),
  ...each('update_wallet', wallets, (wallet) => ({ wallet, frozen: false })),
  ...each('set_wallet_webhook', wallets, (wallet) => ({ wallet })),
  ...each('send_payment', wallets, (wallet, world) => ({
    wallet,
    to: world.wallets.bob,
    amount: '0.1',
    repeat: true,
  })),
  one('get_payment', ({ make }) => ({ id: make.payment })),
  ...each('list_payments', wallets, (wallet) => ({ wallet })),
  ...each('get_reputation', wallets, (wallet) => ({ wallet })),
  ...each('pay_x402', wallets, (wallet, { site }) => ({ wallet, url: site, maxAmount: '1' })),
  ...each('charge_x402', wallets, (wallet) => ({ wallet, resource: 'a', price: '1' })),
  ...each('mint_credit', wallets, (wallet) => ({ wallet, amount: '1', transferId: wallet })),
  one('pause_escrow', () => ({ paused: false })),
  one('get_escrow_health', () => ({})),
  one('verify_escrow', () => ({})),
];

/** The same for the job's webhook. */
function hooked({ operation, about, input }: OperationRow): OperationRow {
  return one(
    operation,
    async (world) => {
      const { id } = (await input(world)) as { id: string };
      return { id: await world.make.hook(id) };
    },
    about,
  );
}
