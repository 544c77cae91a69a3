// A client that knows only the ERC-8183 reference runs complete jobs and reads every field and event with that ABI.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createWalletClient,
  getAddress,
  http,
  parseAbi,
  publicActions,
  type Abi,
  type AbiEvent,
  type AbiFunction,
  type Hex,
} from 'viem';
import { formatAbiItem } from 'viem/utils';
import { contracts } from './anvil.ts';
import { budget, nobody, openLab, people, some, windowSeconds } from './lab.ts';

const reference = parseAbi([
  'struct Job { uint256 id; address client; address provider; address evaluator; string description; uint256 budget; uint256 expiredAt; uint8 status; address hook; address paymentToken; uint256 providerAgentId; uint256 submittedAt; }',
  'function createJob(address provider, address evaluator, uint256 expiredAt, string description, address hook, uint256 providerAgentId) returns (uint256)',
  'function setProvider(uint256 jobId, address provider_, uint256 agentId)',
  'function setBudget(uint256 jobId, address token, uint256 amount, bytes optParams)',
  'function fund(uint256 jobId, uint256 expectedBudget, bytes optParams)',
  'function submit(uint256 jobId, bytes32 deliverable, bytes optParams)',
  'function complete(uint256 jobId, bytes32 reason, bytes optParams)',
  'function reject(uint256 jobId, bytes32 reason, bytes optParams)',
  'function claimRefund(uint256 jobId)',
  'function setPlatformFee(uint256 feeBP_, address treasury_)',
  'function setEvaluatorFee(uint256 feeBP_)',
  'function getJob(uint256 jobId) view returns (Job)',
  'function jobs(uint256) view returns (uint256 id, address client, address provider, address evaluator, string description, uint256 budget, uint256 expiredAt, uint8 status, address hook, address paymentToken, uint256 providerAgentId, uint256 submittedAt)',
  'function jobCounter() view returns (uint256)',
  'function platformFeeBP() view returns (uint256)',
  'function evaluatorFeeBP() view returns (uint256)',
  'function platformTreasury() view returns (address)',
  'function whitelistedHooks(address) view returns (bool)',
  'function EVALUATION_GRACE_PERIOD() view returns (uint256)',
  'event JobCreated(uint256 indexed jobId, address indexed client, address indexed provider, address evaluator, uint256 expiredAt, address hook)',
  'event ProviderSet(uint256 indexed jobId, address indexed provider, uint256 agentId)',
  'event BudgetSet(uint256 indexed jobId, address indexed token, uint256 amount)',
  'event JobFunded(uint256 indexed jobId, address indexed client, uint256 amount)',
  'event JobSubmitted(uint256 indexed jobId, address indexed provider, bytes32 deliverable)',
  'event JobCompleted(uint256 indexed jobId, address indexed evaluator, bytes32 reason)',
  'event JobRejected(uint256 indexed jobId, address indexed rejector, bytes32 reason)',
  'event JobExpired(uint256 indexed jobId)',
  'event PaymentReleased(uint256 indexed jobId, address indexed provider, uint256 amount)',
  'event PlatformFeePaid(uint256 indexed jobId, address indexed platformTreasury, uint256 amount)',
  'event EvaluatorFeePaid(uint256 indexed jobId, address indexed evaluator, uint256 amount)',
  'event Refunded(uint256 indexed jobId, address indexed client, uint256 amount)',
  'event PlatformFeeSet(uint256 feeBP, address indexed treasury)',
  'event EvaluatorFeeSet(uint256 feeBP)',
  'error InvalidJob()',
  'error WrongStatus()',
  'error Unauthorized()',
  'error ZeroAddress()',
  'error ExpiryTooShort()',
  'error ZeroBudget()',
  'error ProviderNotSet()',
  'error FeesTooHigh()',
  'error HookNotWhitelisted()',
  'error BudgetMismatch()',
  'error ProviderCannotBeEvaluator()',
  'error GracePeriodActive()',
]);

type Named = AbiEvent | AbiFunction;

/** Types in order, with names where a client sees them: in events, structs and results, not in arguments. */
function shape(item: Named): unknown {
  const field = (part: Record<string, unknown>): unknown => [
    part.name ?? '',
    part.type,
    part.indexed === true,
    ...((part.components as Record<string, unknown>[] | undefined) ?? []).map(field),
  ];
  if (item.type === 'event') return item.inputs.map((part) => field({ ...part }));
  const types = item.inputs.map(({ type }) => type);
  const outputs = item.stateMutability === 'nonpayable' ? [] : item.outputs;
  return [types, item.outputs.map(({ type }) => type), outputs.map((part) => field({ ...part }))];
}

test('every function, event and error of the reference is in the contract, field by field', () => {
  const own = contracts.escrow.abi;
  for (const item of reference) {
    const text = formatAbiItem(item);
    const found = own.filter((one) => 'name' in one && one.name === item.name);
    assert.equal(found.length, 1, text);
    if (item.type === 'error') assert.equal(formatAbiItem(found[0]!), text);
    else assert.deepEqual(shape(found[0] as Named), shape(item), text);
  }
});

test('a reference client hires, pays, rejects and is refunded, and reads every field and event', async (t) => {
  const lab = await openLab(t);
  const { client, provider, evaluator, treasury, stranger } = people;
  const { anvil, escrow: address, token } = lab;
  const chain = createWalletClient({ transport: http(anvil.url) }).extend(publicActions);
  const abi = reference as Abi;
  for (const who of [client, provider, evaluator, stranger]) {
    await anvil.rpc('anvil_impersonateAccount', [who]);
    await anvil.rpc('anvil_setBalance', [who, '0xde0b6b3a7640000']);
  }
  /** Sends a call and returns the events that this client understands, in order. */
  const call = async (account: Hex, functionName: string, args: unknown[]) => {
    const { request } = await chain.simulateContract({ address, abi, functionName, args, account });
    const hash = await chain.writeContract({ ...request, chain: null });
    const { blockNumber } = await chain.waitForTransactionReceipt({ hash, pollingInterval: 5 });
    const block = { fromBlock: blockNumber, toBlock: blockNumber, strict: true };
    const events = await chain.getContractEvents({ address, abi, ...block });
    return events.map((event) => {
      const { eventName, args: values } = event as unknown as { eventName: string; args: object };
      return [eventName, ...Object.values(values)];
    });
  };
  const read = (functionName: string, args: unknown[] = []) =>
    chain.readContract({ address, abi, functionName, args });
  const job = (id: bigint) => read('getJob', [id]) as Promise<Record<string, unknown>>;

  assert.equal(await read('platformFeeBP'), 200n);
  assert.equal(await read('evaluatorFeeBP'), 500n);
  assert.equal(await read('platformTreasury'), treasury);
  assert.equal(await read('EVALUATION_GRACE_PERIOD'), BigInt(windowSeconds));
  assert.equal(await read('whitelistedHooks', [nobody]), true);
  assert.equal(await read('whitelistedHooks', [stranger]), false);
  const expiredAt = BigInt((await lab.now()) + 1000);
  const terms = [evaluator, expiredAt, 'a résumé', nobody];
  const created = (id: bigint, who: Hex) => [
    ['JobCreated', id, client, who, evaluator, expiredAt, nobody],
  ];
  assert.deepEqual(await call(client, 'createJob', [nobody, ...terms, 7n]), created(1n, nobody));
  const empty = {
    id: 1n,
    client,
    provider: nobody,
    evaluator,
    description: 'a résumé',
    budget: 0n,
    expiredAt,
    status: 0,
    hook: nobody,
    paymentToken: nobody,
    providerAgentId: 0n,
    submittedAt: 0n,
  };
  assert.deepEqual(await job(1n), empty);
  assert.deepEqual(await call(client, 'setProvider', [1n, provider, 8n]), [
    ['ProviderSet', 1n, provider, 8n],
  ]);
  const paymentToken = getAddress(token);
  assert.deepEqual(await call(client, 'setBudget', [1n, token, budget, '0x']), [
    ['BudgetSet', 1n, paymentToken, budget],
  ]);
  assert.deepEqual(await call(client, 'fund', [1n, budget, '0x']), [
    ['JobFunded', 1n, client, budget],
  ]);
  assert.deepEqual(await call(provider, 'submit', [1n, some, '0x']), [
    ['JobSubmitted', 1n, provider, some],
  ]);
  const submittedAt = BigInt(await lab.now());
  const delivered = { provider, budget, status: 2, paymentToken, providerAgentId: 8n, submittedAt };
  assert.deepEqual(await job(1n), { ...empty, ...delivered });
  assert.deepEqual(await call(evaluator, 'complete', [1n, some, '0x']), [
    ['PlatformFeePaid', 1n, treasury, 20_000n],
    ['EvaluatorFeePaid', 1n, evaluator, 50_000n],
    ['JobCompleted', 1n, evaluator, some],
    ['PaymentReleased', 1n, provider, 930_000n],
  ]);
  assert.deepEqual(await job(1n), { ...empty, ...delivered, status: 3 });
  assert.deepEqual(await read('jobs', [1n]), Object.values({ ...empty, ...delivered, status: 3 }));

  const hire = async () => {
    const id = ((await read('jobCounter')) as bigint) + 1n;
    const found = await call(client, 'createJob', [provider, ...terms, 0n]);
    assert.deepEqual(found, created(id, provider));
    await call(client, 'setBudget', [id, token, budget, '0x']);
    await call(client, 'fund', [id, budget, '0x']);
    return id;
  };
  const rejected = await hire();
  assert.deepEqual(await call(evaluator, 'reject', [rejected, some, '0x']), [
    ['Refunded', rejected, client, budget],
    ['JobRejected', rejected, evaluator, some],
  ]);
  const late = await hire();
  await anvil.forward(1000);
  assert.deepEqual(await call(stranger, 'claimRefund', [late]), [
    ['Refunded', late, client, budget],
    ['JobExpired', late],
  ]);
  assert.deepEqual([(await job(rejected)).status, (await job(late)).status], [4, 5]);
  assert.equal(await read('jobCounter'), 3n);
  const none = await job(99n);
  assert.deepEqual([none.id, none.client, none.description], [0n, nobody, ''], 'an unknown job');
  await assert.rejects(call(client, 'claimRefund', [99n]), /InvalidJob/);
});
