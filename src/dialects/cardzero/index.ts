// CardZero: its HTTP API at /cardzero/v1 and its ten MCP tools, over the escrow operations.
import type { Dialect, DialectCall, DialectRequest, DialectRoute } from '../../dialect.ts';
import {
  createJob,
  fundJob,
  getJob,
  jobsByWallet,
  jobSpec,
  refundJob,
  submitJob,
  type Api,
  type Fields,
} from './api.ts';
import { CardzeroFault, faultOf, unroutedFault, type CardzeroError } from './errors.ts';
import { agentCard, catalogOf } from './catalog.ts';
import {
  catalogLimit,
  Limits,
  moneyLimit,
  reputationLimit,
  walletLimit,
  type Limit,
} from './limits.ts';
import { cardzeroTools } from './tools.ts';
import * as wallets from './wallets.ts';
import { routeDocs } from './route-docs.ts';
import { walletWebhook } from './webhooks.ts';

const root = '/cardzero/v1';
const maxBodyBytes = 100_000;
const limits = new Limits();

type Method = DialectRoute['method'];

/** `open`: needs no key. */
interface RouteSpec {
  method: Method;
  path: string;
  api: Api;
  open?: true;
  status?: number;
  limit?: Limit;
  /** Fields that the path implies. */
  fixed?: Fields;
}

const routeSpecs: RouteSpec[] = [
  { method: 'POST', path: '/jobs', api: createJob, status: 201, limit: moneyLimit },
  { method: 'POST', path: '/jobs/{jobId}/fund', api: fundJob, limit: moneyLimit },
  { method: 'POST', path: '/jobs/{jobId}/submit', api: submitJob, limit: moneyLimit },
  { method: 'POST', path: '/jobs/{jobId}/refund', api: refundJob, limit: moneyLimit },
  { method: 'GET', path: '/jobs/by-wallet/{walletId}', api: jobsByWallet },
  { method: 'GET', path: '/jobs/{jobId}', api: getJob, open: true },
  {
    method: 'POST',
    path: '/wallets',
    api: wallets.createWallet,
    open: true,
    status: 201,
    limit: walletLimit,
  },
  { method: 'GET', path: '/wallets', api: wallets.listWallets },
  { method: 'POST', path: '/auth/claim', api: wallets.claimWallet, status: 201 },
  { method: 'GET', path: '/wallets/{walletId}', api: wallets.getWallet },
  { method: 'GET', path: '/wallets/{walletId}/balance', api: wallets.getBalance },
  { method: 'GET', path: '/wallets/{walletId}/payments', api: wallets.listPayments },
  { method: 'PATCH', path: '/wallets/{walletId}/config', api: wallets.configureWallet },
  { method: 'PATCH', path: '/wallets/{walletId}/name', api: wallets.configureWallet },
  {
    method: 'POST',
    path: '/wallets/{walletId}/freeze',
    api: wallets.freezeWallet,
    fixed: { frozen: true },
  },
  {
    method: 'POST',
    path: '/wallets/{walletId}/unfreeze',
    api: wallets.freezeWallet,
    fixed: { frozen: false },
  },
  { method: 'POST', path: '/wallets/{walletId}/api-key/rotate', api: wallets.rotateKey },
  { method: 'POST', path: '/wallets/{walletId}/webhook', api: wallets.setWebhook, status: 201 },
  { method: 'GET', path: '/wallets/{walletId}/webhook-secret', api: wallets.webhookSecret },
  {
    method: 'POST',
    path: '/wallets/{walletId}/webhook-secret/rotate',
    api: wallets.webhookSecret,
    fixed: { rotateSecret: true },
  },
  { method: 'POST', path: '/payments', api: wallets.sendPayment, status: 201, limit: moneyLimit },
  { method: 'GET', path: '/payments/{paymentId}', api: wallets.getPayment, open: true },
  { method: 'POST', path: '/x402/pay', api: wallets.payX402, limit: moneyLimit },
  {
    method: 'GET',
    path: '/reputation/{address}',
    api: wallets.reputation,
    open: true,
    limit: reputationLimit,
  },
  {
    method: 'GET',
    path: '/reputation/{address}/events',
    api: wallets.reputationEvents,
    open: true,
    limit: reputationLimit,
  },
];

/** Public documents: who an agent is, and what this server offers. */
routeSpecs.push(
  {
    method: 'GET',
    path: '/catalog',
    api: async () => catalogOf(root, routeSpecs),
    open: true,
    limit: catalogLimit,
  },
  {
    method: 'GET',
    path: '/.well-known/agent/{address}',
    api: agentCard,
    open: true,
    limit: catalogLimit,
  },
);

export const cardzeroDialect: Dialect = {
  name: 'cardzero',
  webhooks: [walletWebhook],
  instructions:
    'Escrow jobs between agents on this server. Amounts are internal credit, not money. A client creates and funds a job, the provider submits the work, and the agreed rule decides.',
  tools: cardzeroTools,
  routeDocs,
  routes: [...routeSpecs.map(routeOf), specRoute()],
  errors: { prefix: root, toResponse: (error) => faultResponse(unroutedFault(error)) },
};

function routeOf({ method, path, api, open, status = 200, fixed, limit }: RouteSpec): DialectRoute {
  return {
    method,
    path: `${root}${path}`,
    auth: 'none',
    maxBodyBytes,
    // Calls that move money may wait for a chain.
    waits: limit === moneyLimit,
    handle: (request, call) =>
      respond(request, open, limit, async () => ({
        status,
        body: await api(call, { ...inputOf(request), ...request.params, ...fixed }),
      })),
  };
}

/** The exact bytes of the spec: their keccak256 is the job's metadata hash. */
function specRoute(): DialectRoute {
  return {
    method: 'GET',
    path: `${root}/jobs/{jobId}/spec`,
    auth: 'none',
    handle: (request, call: DialectCall) =>
      respond(request, true, undefined, async () => ({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: await jobSpec(call, request.params.jobId!),
      })),
  };
}

async function respond(
  request: DialectRequest,
  open: true | undefined,
  limit: Limit | undefined,
  handle: () => Promise<{ status: number; headers?: Record<string, string>; body: unknown }>,
) {
  let headers: Record<string, string> = {};
  try {
    // An invalid key is refused even where no key is needed.
    if (!request.caller && (!open || hasKey(request))) throw keyNeeded(request);
    if (limit) headers = limits.take(limit, request);
    const answer = await handle();
    return { ...answer, headers: { ...headers, ...answer.headers } };
  } catch (error) {
    const answer = faultResponse(faultOf(error));
    return { ...answer, headers: { ...headers, ...answer.headers } };
  }
}

const faultResponse = ({ status, headers = {}, ...body }: CardzeroError) => ({
  status,
  headers,
  body,
});

const hasKey = ({ headers }: DialectRequest): boolean =>
  headers.authorization !== undefined || headers['x-api-key'] !== undefined;

function keyNeeded(request: DialectRequest): CardzeroFault {
  const sent = hasKey(request);
  return new CardzeroFault(
    sent
      ? { status: 401, error: 'INVALID_API_KEY', message: 'The API key is not valid.' }
      : { status: 401, error: 'UNAUTHORIZED', message: 'Send Authorization: Bearer <API key>.' },
  );
}

function inputOf(request: DialectRequest): Fields {
  if (request.method === 'GET') return Object.fromEntries(request.query);
  if (request.body.length === 0) return {};
  const body = request.json();
  return typeof body === 'object' && body !== null ? (body as Fields) : {};
}
