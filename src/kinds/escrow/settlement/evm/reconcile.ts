// Compares every chain job of this server with the contract: status, budget, escrow, parties, token, fees. Both sides are
// read as of the last indexed block; a job that moves meanwhile is compared again instead of reported.
import { systemClock } from '../../../../runtime/clock.ts';
import { divide } from '../../money.ts';
import type { Phase } from '../../stage.ts';
import type { Work } from '../../work.ts';
import type { SettlementReport } from '../settlement.ts';
import type { Chain } from './chain.ts';
import type { EvmDeps } from './deps.ts';

export interface ChainReport extends SettlementReport, Record<string, unknown> {
  contract: string;
  block: number;
  /** Fees and failed payments that the operator can withdraw from the contract. */
  unclaimed: string;
}

interface ChainJob {
  status: number;
  budget: bigint;
  client: string;
  provider: string;
  evaluator: string;
  paymentToken: string;
  expiredAt: bigint;
}

interface ChainTerms {
  platformFeeBP: number;
  evaluatorFeeBP: number;
}

const page = 500;
/** Concurrent requests to the node. */
const parallel = 16;
const maxProblems = 20;
/** The indexer applies a block's events before it stores the block, so a difference is checked again until both are done. */
const maxTries = 4;
const retryMs = 50;

const statuses: Record<Phase, number> = {
  open: 0,
  funded: 1,
  submitted: 2,
  decided: 2,
  disputed: 2,
  completed: 3,
  rejected: 4,
  expired: 5,
};
const statusNames = ['Open', 'Funded', 'Submitted', 'Completed', 'Rejected', 'Expired'];

export async function reconcile(deps: EvmDeps): Promise<ChainReport> {
  const { chain, evmStore, operator } = deps;
  const block = await lastBlock(deps);
  const problems: string[] = [];
  const sums = { escrowed: 0n, platform: 0, evaluator: 0 };
  let jobs = 0;
  let after = '';
  for (;;) {
    const ids = await evmStore.jobsAfter(after, page);
    for (let i = 0; i < ids.length; i += parallel) {
      const found = await Promise.all(ids.slice(i, i + parallel).map((id) => compare(deps, id)));
      for (const { differences, escrowed, fees } of found) {
        problems.push(...differences);
        sums.escrowed += escrowed;
        sums.platform += fees.platform;
        sums.evaluator += fees.evaluator;
      }
    }
    jobs += ids.length;
    if (ids.length < page) break;
    after = ids.at(-1)!;
  }
  const solvency = await shortfall(chain, block);
  if (solvency) problems.unshift(solvency);
  return {
    contract: chain.contract,
    block,
    jobs,
    entries: await evmStore.eventCount(),
    escrowed: String(sums.escrowed),
    fees: { platform: String(sums.platform), evaluator: String(sums.evaluator) },
    unclaimed: String(await chain.credit(operator.address, block)),
    problems: problems.slice(0, maxProblems),
  };
}

interface Comparison {
  differences: string[];
  escrowed: bigint;
  fees: { platform: number; evaluator: number };
}

async function compare(deps: EvmDeps, jobId: string): Promise<Comparison> {
  for (let tries = 1; ; tries++) {
    const block = await lastBlock(deps);
    const work = await deps.store.works.work(jobId);
    const found = await inspect(deps, work, block);
    if (found.differences.length === 0 || tries === maxTries) return found;
    await systemClock.sleep(retryMs);
  }
}

async function inspect(deps: EvmDeps, work: Work, block: number): Promise<Comparison> {
  const { chain, store } = deps;
  const none = { escrowed: 0n, fees: { platform: 0, evaluator: 0 } };
  if (work.external === null) {
    // Not on the chain yet, or rejected by the chain.
    const wrong = work.held > 0 || !['open', 'rejected', 'expired'].includes(work.phase);
    return {
      ...none,
      differences: wrong ? [`${work.jobId}: ${work.phase}, but not on the chain`] : [],
    };
  }
  const id = BigInt(work.external);
  const job = (await chain.read('getJob', [id], block)) as ChainJob;
  const escrowed = (await chain.read('escrowed', [id], block)) as bigint;
  const terms = (await chain.read('getTerms', [id], block)) as ChainTerms;
  const differences: string[] = [];
  const expect = (what: string, here: unknown, there: unknown) => {
    if (String(here).toLowerCase() !== String(there).toLowerCase())
      differences.push(
        `${work.jobId}: ${what} is ${String(here)} here and ${String(there)} on the chain`,
      );
  };
  const address = async (wallet: string) => (await store.wallet(wallet)).address;
  const isPending = work.state.pending?.action === 'create';
  expect('stage', statusNames[statuses[work.phase]], statusNames[job.status]);
  expect('escrow', work.held, escrowed);
  expect('client', await address(work.client), job.client);
  expect('provider', await address(work.provider), job.provider);
  expect('expiry', Math.floor(Date.parse(work.terms.expiredAt) / 1000), job.expiredAt);
  expect('platform fee', work.terms.fees.platformBps, terms.platformFeeBP);
  expect('evaluator fee', work.terms.fees.evaluatorBps, terms.evaluatorFeeBP);
  const judge = work.evaluator;
  const evaluator = judge === null ? deps.operator.address : await address(judge);
  expect('evaluator', evaluator, job.evaluator);
  if (!isPending && work.phase !== 'rejected') {
    expect('token', chain.token, job.paymentToken);
    expect('budget', work.budget, job.budget);
  }
  if (work.phase !== 'completed') return { ...none, escrowed, differences };
  const { platformFeeBP: platformBps, evaluatorFeeBP: evaluatorBps } = terms;
  const fees = divide(Number(job.budget), { platformBps, evaluatorBps });
  return { escrowed, fees, differences };
}

/** The contract must hold every token that it owes. */
async function shortfall(chain: Chain, block: number): Promise<string | undefined> {
  const owed = (await chain.read('owed', [chain.token], block)) as bigint;
  const has = await chain.tokenBalance(chain.contract, block);
  return has < owed ? `the contract holds ${has} but owes ${owed}` : undefined;
}

async function lastBlock({ chain, evmStore }: EvmDeps): Promise<number> {
  const [last] = await evmStore.lastBlocks(1);
  return last?.number ?? (await chain.block('latest'))?.number ?? 0;
}
