// Books derived only from the contract's events: who is entitled to what, what was sent, what is pending. An independent
// model to compare with token balances and the contract's storage.
import assert from 'node:assert/strict';
import { decodeEventLog, type Hex } from 'viem';
import { contracts } from './anvil.ts';

export interface Log {
  address: Hex;
  topics: [Hex, ...Hex[]];
  data: Hex;
}

export interface ModelJob {
  id: bigint;
  client: Hex;
  provider: Hex;
  evaluator: Hex;
  token: Hex;
  budget: bigint;
  /** 0 to 5, as in the contract. */
  status: number;
  funded: bigint;
  /** The sum of payments, refunds and fees. */
  out: bigint;
}

class Sums extends Map<string, bigint> {
  add(amount: bigint, ...key: string[]): void {
    const name = key.join();
    this.set(name, (this.get(name) ?? 0n) + amount);
  }
}

const ends: Record<string, number> = { JobCompleted: 3, JobRejected: 4, JobExpired: 5 };
const shares: Record<string, string> = {
  PlatformFeePaid: 'platformTreasury',
  EvaluatorFeePaid: 'evaluator',
  PaymentReleased: 'provider',
  Refunded: 'client',
};

type EventFields = Record<string, never> & {
  jobId: bigint;
  amount: bigint;
  account: Hex;
  token: Hex;
};

export class Model {
  readonly jobs: ModelJob[] = [];
  readonly live = new Sums();
  readonly credits = new Sums();
  /** By token and account: what jobs paid it, and what the token actually transferred to it. */
  readonly entitled = new Sums();
  readonly sent = new Sums();
  private readonly escrow: string;
  private readonly abi = [...contracts.escrow.abi, ...contracts.hostile.abi];

  constructor(escrow: string) {
    this.escrow = escrow.toLowerCase();
  }

  apply({ address, topics, data }: Log): void {
    const { eventName, args } = decodeEventLog({ abi: this.abi, topics, data });
    const fields = Object.fromEntries(
      Object.entries(args as Record<string, unknown>).map(([name, value]) => [
        name,
        typeof value === 'string' ? value.toLowerCase() : value,
      ]),
    ) as EventFields;
    if (eventName === 'Transfer') return this.transferred(address.toLowerCase(), fields);
    if (address.toLowerCase() !== this.escrow) return;
    if (eventName === 'Credited') this.credits.add(fields.amount, fields.token, fields.account);
    if (eventName === 'Withdrawn') this.credits.add(-fields.amount, fields.token, fields.account);
    if (eventName === 'JobCreated') this.created(fields);
    if (fields.jobId !== undefined)
      this.moved(eventName, this.jobs[Number(fields.jobId) - 1]!, fields);
  }

  /** Everybody has, or can withdraw, exactly what the jobs paid: nothing is lost, nobody is paid twice. */
  check(): void {
    for (const key of new Set([...this.entitled.keys(), ...this.sent.keys()])) {
      const has = (this.sent.get(key) ?? 0n) + (this.credits.get(key) ?? 0n);
      assert.equal(has, this.entitled.get(key) ?? 0n, `token and account ${key}`);
    }
    for (const [key, amount] of this.credits) assert.ok(amount >= 0n, `credit of ${key}`);
    for (const { id, status, funded, out } of this.jobs) {
      if (status > 2) assert.equal(out, funded, `job ${id} paid out what it held`);
      else assert.equal(out, 0n, `job ${id} has not ended`);
    }
  }

  /** The balance of a token that the contract must have. */
  due(token: Hex): { live: bigint; credits: bigint } {
    const sum = (sums: Sums) =>
      [...sums]
        .filter(([key]) => key.startsWith(token))
        .reduce((total, [, amount]) => total + amount, 0n);
    return { live: sum(this.live), credits: sum(this.credits) };
  }

  private created(fields: EventFields): void {
    const { jobId: id, client, provider, evaluator } = fields as unknown as ModelJob & EventFields;
    assert.equal(id, BigInt(this.jobs.length + 1));
    const token: Hex = '0x';
    const [budget, funded, out] = [0n, 0n, 0n];
    this.jobs.push({ id, client, provider, evaluator, token, budget, status: 0, funded, out });
  }

  private moved(name: string, job: ModelJob, fields: EventFields): void {
    if (name === 'BudgetSet') [job.token, job.budget] = [fields.token, fields.amount];
    if (name === 'JobFunded') {
      assert.equal(job.status, 0, `job ${job.id} is funded once`);
      assert.equal(fields.amount, job.budget, 'exactly the budget that was expected');
      [job.status, job.funded] = [1, fields.amount];
      this.live.add(fields.amount, job.token, String(job.id));
    }
    if (name === 'JobSubmitted') job.status = 2;
    const share = shares[name];
    if (share) {
      job.out += fields.amount;
      this.live.add(-fields.amount, job.token, String(job.id));
      this.entitled.add(fields.amount, job.token, fields[share]!);
    }
    const end = ends[name];
    if (end === undefined) return;
    assert.ok(job.status < 3, `job ${job.id} ends once`);
    job.status = end;
  }

  private transferred(token: string, { from, to, amount }: EventFields): void {
    if (from === this.escrow) this.sent.add(amount, token, to!);
  }
}
