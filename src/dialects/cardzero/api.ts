// Maps CardZero calls to operations, with CardZero's fields in both directions. Routes and tools share these functions.
// Amounts are internal credit of this server and are labelled as such, never as a stablecoin.
import { numberOf } from '../../runtime/json.ts';
import type { Contract, OutputOf } from '../../contract.ts';
import { getJob as getJobContract } from '../../contracts/jobs.ts';
import { callUnchecked, type DialectCall } from '../../dialect.ts';
import * as contracts from '../../kinds/escrow/contracts/work.ts';
import { keccak256 } from '../../runtime/keccak.ts';
import { systemClock } from '../../runtime/clock.ts';
import { CardzeroFault, invalid } from './errors.ts';

export type Fields = Record<string, unknown>;
export type Api = (call: DialectCall, input: Fields) => Promise<Fields>;

/** CardZero's own limits, in addition to those of the operations. */
const maxBudgetMicro = 100_000_000n;
const minExpiryMs = 86_400_000;
/** How long a call waits for a chain to confirm it, as in CardZero. */
const maxSettleMs = 50_000;
const settlePollMs = 100;
/** The end of the year 9999. Current times in milliseconds are far larger. */
const maxUnixSeconds = 253_402_300_799;
/** Unix seconds drop milliseconds: a job posted in the same second must not count as too short. */
const roundingMs = 1000;

interface WorkView extends Fields {
  id: string;
  stage: string;
  client: string;
  provider: string;
  budget: string;
  expiresAt: string;
  transactions: { kind: string; id: string; at: string; hash?: string }[];
  evaluation: { rule: string; outcome?: string; reason?: string; by?: string; at?: string };
  deliverable?: { hash: string; uri?: string };
}

/** The outputs of these operations are loose objects: the fields above are those that CardZero shows. */
async function callWork(call: DialectCall, contract: Contract, input: Fields): Promise<WorkView> {
  return (await callUnchecked(call, contract, input)) as WorkView;
}

/** The wallet of the key, otherwise the one named in the bridge's environment. */
export function walletField(call: DialectCall): { wallet?: string } {
  const { caller, origin } = call.context;
  const named = origin?.env?.CARDZERO_WALLET_ID;
  return caller?.subject === undefined && named ? { wallet: named } : {};
}

/** The ledger settles immediately; a chain takes longer. Returns the job as it is then, still settling if that took too long. */
async function waitUntilSettled(call: DialectCall, work: WorkView): Promise<WorkView> {
  const end = systemClock.now() + maxSettleMs;
  let present = work;
  const { signal } = call.context;
  while (present.settling !== undefined && systemClock.now() < end && !signal.aborted) {
    await systemClock.sleep(settlePollMs, signal);
    present = await callWork(call, getJobContract, { id: work.id });
  }
  return present;
}

/** The transaction of a completed step. On a chain it may be pending or rejected. */
async function completedStep(
  call: DialectCall,
  work: WorkView,
  ...kinds: string[]
): Promise<{ status: string; txHash: string }> {
  const after = await waitUntilSettled(call, work);
  const txHash = txOf(after, ...kinds);
  if (txHash !== null) return { status: after.stage, txHash };
  const step = `${kinds[0]} of ${work.id}`;
  throw after.settling === undefined
    ? chainFault('CHAIN_ERROR', `The chain rejected ${step}; the job is ${after.stage}.`)
    : chainFault(
        'RPC_TIMEOUT',
        `The chain has not confirmed ${step} yet. Read the job again later.`,
      );
}

const chainFault = (error: string, message: string): CardzeroFault =>
  new CardzeroFault({ status: 502, error, message });

const text = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
const optional = (name: string, value: unknown): Fields =>
  value === undefined || value === null ? {} : { [name]: value };

export const createJob: Api = async (call, input) => {
  const expiredAt = timeOf(input.expiredAt);
  const budget = text(input.budgetUsdc) ?? '';
  if (/^\d{1,30}$/.test(budget) && BigInt(budget) > maxBudgetMicro) {
    throw invalid('SOFT_START_CAP', 'A job budget is limited to 100 units.');
  }
  const posted = await callWork(call, contracts.postWork, {
    provider: input.providerAddress ?? input.providerWalletId,
    budget,
    maxBudget: String(maxBudgetMicro),
    title: input.title,
    description: input.description,
    rule: ruleOf(input.evaluatorRule),
    expiresAt: expiredAt.toISOString(),
    minExpiryMs: minExpiryMs - roundingMs,
    ...optional('idempotencyKey', input.idempotencyKey),
    ...walletField(call),
  });
  const work = await waitUntilSettled(call, posted);
  if (posted.settling !== undefined && work.stage === 'rejected') {
    throw chainFault('CHAIN_CREATE_FAILED', `The chain rejected job ${work.id}.`);
  }
  const spec = await jobSpec(call, work.id);
  return {
    jobId: work.id,
    onchainJobId: Number(work.settlementId ?? 0) || null,
    metadataHash: keccak256(spec),
    createTxHash: txOf(work, 'create'),
  };
};

function timeOf(seconds: unknown): Date {
  if (seconds === undefined) throw invalid('MISSING_EXPIRED_AT', 'expiredAt is missing.');
  if (!Number.isSafeInteger(seconds) || (seconds as number) > maxUnixSeconds) {
    const message = 'expiredAt must be a whole number: unix time in seconds, not milliseconds.';
    throw invalid('INVALID_EXPIRY', message);
  }
  return new Date((seconds as number) * 1000);
}

function ruleOf(rule: unknown): unknown {
  if (typeof rule !== 'object' || rule === null) {
    throw invalid('INVALID_EVALUATOR_RULE', 'evaluatorRule must be an object with a type.');
  }
  return rule;
}

/** CardZero has no counter-offers: a client accepts one made elsewhere only by naming its amount. */
export const fundJob: Api = async (call, { jobId, expectedBudgetUsdc }) => {
  const work = await callWork(call, contracts.fundWork, {
    id: jobId,
    ...optional('expectedBudget', expectedBudgetUsdc),
    ...walletField(call),
  });
  const { status, txHash } = await completedStep(call, work, 'fund');
  return { status, fundTxHash: txHash };
};

export const submitJob: Api = async (call, input) => {
  const hash = text(input.contentHash) ?? '';
  if (!/^0x[0-9a-fA-F]{64}$/.test(hash)) {
    throw invalid('INVALID_HASH', 'contentHash must be 0x and 64 hex digits (keccak256).');
  }
  const work = await callWork(call, contracts.submitWork, {
    id: input.jobId,
    contentHash: hash,
    ...optional('uri', input.contentURI),
    ...walletField(call),
  });
  const { status, txHash } = await completedStep(call, work, 'submit');
  return { status, submitTxHash: txHash };
};

export const refundJob: Api = async (call, { jobId }) => {
  const work = await callWork(call, contracts.refundWork, { id: jobId, ...walletField(call) });
  const { status, txHash } = await completedStep(call, work, 'refund', 'complete', 'split');
  return { status, refundTxHash: txHash };
};

export async function jobSpec(call: DialectCall, jobId: string): Promise<string> {
  const request = { id: jobId, exact: true };
  const { specBytes } = await callUnchecked(call, contracts.readWork, request);
  return Buffer.from(specBytes!, 'base64').toString('utf8');
}

export const getJob: Api = async (call, { jobId }) => {
  const job = await callWork(call, getJobContract, { id: jobId });
  // A job of another kind: read_work reports it as unknown.
  const spec = await jobSpec(call, String(jobId));
  return jobRow(job, spec);
};

export const jobsByWallet: Api = async (call, input) => {
  const pageSize = Math.min(Math.max(numberOf(input.pageSize ?? 20) || 20, 1), 100);
  const page = Math.max(numberOf(input.page ?? 1) || 1, 1);
  const role = input.role ?? 'client';
  if (role !== 'client' && role !== 'provider') {
    throw invalid('INVALID_ROLE', 'role must be client or provider.');
  }
  let cursor: string | undefined;
  let answer: OutputOf<typeof contracts.listWork> = { work: [] };
  for (let n = 1; n <= page; n++) {
    answer = await callUnchecked(call, contracts.listWork, {
      role,
      limit: pageSize,
      total: true,
      wallet: input.walletId,
      ...optional('cursor', cursor),
    });
    cursor = answer.nextCursor;
    if (n < page && cursor === undefined) answer = { work: [], total: answer.total ?? 0 };
    if (cursor === undefined) break;
  }
  return {
    jobs: await Promise.all(
      answer.work.map(async (work) =>
        jobRow(work as Fields as WorkView, await jobSpec(call, work.id)),
      ),
    ),
    total: answer.total ?? 0,
    page,
    pageSize,
  };
};

function txOf(work: WorkView, ...kinds: string[]): string | null {
  const tx = work.transactions.find(({ kind }) => kinds.includes(kind));
  return tx ? (tx.hash ?? tx.id) : null;
}

/** The spec names the provider's address permanently. */
function addressOf(spec: string): string | undefined {
  return (JSON.parse(spec) as { provider: { address?: string } }).provider.address;
}

function jobRow(work: WorkView, spec: string): Fields {
  const { evaluation, deliverable } = work;
  const timings = work.timings as { createdAt?: string } | undefined;
  return {
    id: work.id,
    onchain_job_id: Number(work.settlementId ?? 0) || null,
    client_wallet_id: work.client,
    provider_wallet_id: work.provider,
    provider_address: addressOf(spec) ?? work.provider,
    evaluator_address: work.evaluator ?? null,
    budget_usdc: work.budget,
    currency: work.currency,
    // CardZero has no disputes: until it is resolved, the job stays submitted.
    status: work.stage === 'disputed' ? 'submitted' : work.stage,
    expired_at: Math.floor(Date.parse(work.expiresAt) / 1000),
    metadata_uri: `/cardzero/v1/jobs/${work.id}/spec`,
    metadata_hash: keccak256(spec),
    deliverable_uri: deliverable?.uri ?? null,
    deliverable_hash: deliverable?.hash ?? null,
    evaluator_rule_type: evaluation.rule,
    evaluation_outcome: evaluation.outcome ?? null,
    evaluation_reason: evaluation.reason ?? null,
    evaluated_by: evaluation.by === 'rule' ? 'cardzero_auto' : (evaluation.by ?? null),
    evaluated_at: evaluation.at ?? null,
    create_tx_hash: txOf(work, 'create'),
    fund_tx_hash: txOf(work, 'fund'),
    submit_tx_hash: txOf(work, 'submit'),
    finalize_tx_hash: txOf(work, 'complete', 'reject', 'refund', 'split'),
    created_at: timings?.createdAt ?? work.transactions[0]?.at ?? null,
  };
}
