// CardZero's routes for the OpenAPI document.
import type { RouteDoc } from '../../dialect.ts';
import { byName } from '../../runtime/by-name.ts';
import { listOf, schemaOf } from '../../runtime/schema-of.ts';

const wallet = schemaOf({
  id: 'string',
  chainAddress: 'string',
  name: 'string|null',
  status: 'string',
  balance: 'string',
  currency: 'string',
  txLimit: 'string|null',
  dailyLimit: 'string|null',
  whitelist: 'array',
  expiresAt: 'string|null',
  createdAt: 'string',
});
const payment = schemaOf({
  id: 'string',
  paymentId: 'string',
  txHash: 'string',
  status: 'string',
  amount: 'string',
  'feeAmount?': 'string',
  'from?': 'string|null',
  'to?': 'string|null',
  'type?': 'string',
  'memo?': 'string',
  createdAt: 'string',
});
const job = schemaOf({
  id: 'string',
  status: 'string',
  client_wallet_id: 'string',
  provider_wallet_id: 'string',
  provider_address: 'string',
  budget_usdc: 'string',
  currency: 'string',
  expired_at: 'integer',
  metadata_uri: 'string',
  metadata_hash: 'string',
  deliverable_uri: 'string|null',
  deliverable_hash: 'string|null',
  evaluation_outcome: 'string|null',
  evaluation_reason: 'string|null',
  'created_at?': 'string|null',
});
const paging: readonly string[] = ['page', 'pageSize', 'role'];
const secret = schemaOf({ secret: 'string', 'webhookUrl?': 'string' });
const limits = schemaOf({
  'txLimit?': 'string',
  'dailyLimit?': 'string',
  'whitelist?': listOf('string'),
  'expiresAt?': 'string|null',
});

const jobs: Record<string, RouteDoc> = byName({
  'POST /jobs': {
    summary: 'Post a job',
    status: 201,
    body: schemaOf({
      'providerAddress?': 'string',
      'providerWalletId?': 'string',
      budgetUsdc: 'string',
      title: 'string',
      description: 'string',
      evaluatorRule: 'object',
      expiredAt: 'integer',
      'idempotencyKey?': 'string',
    }),
    response: schemaOf({
      jobId: 'string',
      onchainJobId: 'integer|null',
      metadataHash: 'string',
      createTxHash: 'string|null',
    }),
  },
  'POST /jobs/{jobId}/fund': {
    summary: 'Pay the budget into escrow',
    body: schemaOf({ 'expectedBudgetUsdc?': 'string' }),
    response: schemaOf({ status: 'string', fundTxHash: 'string' }),
  },
  'POST /jobs/{jobId}/submit': {
    summary: 'Deliver the work',
    body: schemaOf({ contentHash: 'string', 'contentURI?': 'string' }),
    response: schemaOf({ status: 'string', submitTxHash: 'string' }),
  },
  'POST /jobs/{jobId}/refund': {
    summary: 'Return the budget of an expired job',
    response: schemaOf({ status: 'string', refundTxHash: 'string' }),
  },
  'GET /jobs/{jobId}': { summary: 'Read a job', response: job },
  'GET /jobs/{jobId}/spec': { summary: 'Read the exact bytes of a spec', response: schemaOf({}) },
  'GET /jobs/by-wallet/{walletId}': {
    summary: 'List the jobs of a wallet',
    query: paging,
    response: schemaOf({
      jobs: listOf(job),
      total: 'integer',
      page: 'integer',
      pageSize: 'integer',
    }),
  },
});

const wallets: Record<string, RouteDoc> = byName({
  'POST /wallets': {
    summary: 'Open a wallet that its owner claims later',
    status: 201,
    body: schemaOf({ 'name?': 'string', 'version?': 'string' }),
    response: schemaOf({
      id: 'string',
      chainAddress: 'string',
      claimKey: 'string',
      name: 'string|null',
      status: 'string',
      version: 'string',
    }),
  },
  'GET /wallets': {
    summary: 'List your wallets',
    response: schemaOf({ wallets: listOf(wallet) }),
  },
  'POST /auth/claim': {
    summary: 'Claim a wallet and get its key',
    status: 201,
    body: schemaOf({ claimKey: 'string' }),
    response: schemaOf({
      userId: 'string',
      agentConfig: schemaOf({ apiKey: 'string', walletId: 'string', summary: 'string' }),
    }),
  },
  'GET /wallets/{walletId}': { summary: 'Read a wallet', response: wallet },
  'GET /wallets/{walletId}/balance': {
    summary: 'Read the balance of a wallet',
    response: schemaOf({ walletId: 'string', balance: 'string', currency: 'string' }),
  },
  'GET /wallets/{walletId}/payments': {
    summary: 'List the payments of a wallet',
    query: ['limit', 'offset'],
    response: schemaOf({ payments: listOf(payment) }),
  },
  'PATCH /wallets/{walletId}/config': {
    summary: 'Change the limits of a wallet',
    body: limits,
    response: wallet,
  },
  'PATCH /wallets/{walletId}/name': {
    summary: 'Rename a wallet',
    body: schemaOf({ name: 'string' }),
    response: wallet,
  },
  'POST /wallets/{walletId}/freeze': { summary: 'Freeze a wallet', response: wallet },
  'POST /wallets/{walletId}/unfreeze': { summary: 'Unfreeze a wallet', response: wallet },
  'POST /wallets/{walletId}/api-key/rotate': {
    summary: 'Replace the key of a wallet',
    response: schemaOf({ apiKey: 'string' }),
  },
  'POST /wallets/{walletId}/webhook': {
    summary: 'Set the webhook of a wallet',
    status: 201,
    body: schemaOf({ url: 'string' }),
    response: schemaOf({ 'webhookId?': 'string', url: 'string', 'secret?': 'string' }),
  },
  'GET /wallets/{walletId}/webhook-secret': {
    summary: 'Read the webhook secret of a wallet',
    response: secret,
  },
  'POST /wallets/{walletId}/webhook-secret/rotate': {
    summary: 'Replace the webhook secret of a wallet',
    response: secret,
  },
});

const payments: Record<string, RouteDoc> = byName({
  'POST /payments': {
    summary: 'Send credit to a wallet',
    status: 201,
    body: schemaOf({
      to: 'string',
      amount: 'string',
      'memo?': 'string',
      'idempotencyKey?': 'string',
    }),
    response: payment,
  },
  'GET /payments/{paymentId}': { summary: 'Read a payment', response: payment },
  'POST /x402/pay': {
    summary: 'Pay for a resource (x402)',
    body: schemaOf({ url: 'string', maxAmount: 'string', recipient: 'string' }),
    response: schemaOf({
      paymentId: 'string',
      paymentHeader: 'string',
      amount: 'string',
      'feeAmount?': 'string',
      network: 'string',
    }),
  },
  'GET /reputation/{address}': {
    summary: 'Read the reputation of an agent',
    response: schemaOf({ agentId: 'string', score: 'any', counts: 'object' }),
  },
  'GET /reputation/{address}/events': {
    summary: 'List the events behind a reputation',
    query: ['limit'],
    response: schemaOf({ events: 'array' }),
  },
  'GET /catalog': {
    summary: 'List what this server offers',
    response: schemaOf({
      currency: 'string',
      decimals: 'integer',
      services: 'array',
      tools: 'array',
    }),
  },
  'GET /.well-known/agent/{address}': {
    summary: 'Read the public card of an agent',
    response: schemaOf({ type: 'string', agentId: 'string', reputation: 'object' }),
  },
});

export const routeDocs = byName<RouteDoc>(
  Object.fromEntries(
    Object.entries({ ...jobs, ...wallets, ...payments }).map(([route, doc]) => [
      route.replace(' ', ' /cardzero/v1'),
      doc,
    ]),
  ),
);
