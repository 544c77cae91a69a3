// Deploys the escrow contract to a chain and prints the settings for it. On a test chain it can also deploy a worthless test
// token and mint some of it for an address.
//   node scripts/deploy-escrow.ts --rpc URL --key FILE (--token 0x… | --test-token)
//   node scripts/deploy-escrow.ts --rpc URL --key FILE --token 0x… --mint 0x…=UNITS
// The contract keeps fees and refused payments as credits. This sends an address its credits:
//   node scripts/deploy-escrow.ts --rpc URL --key FILE --token 0x… --contract 0x… --withdraw 0x…
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import {
  createWalletClient,
  formatUnits,
  http,
  parseUnits,
  publicActions,
  type Abi,
  type Hex,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

const root = join(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    rpc: { type: 'string' },
    key: { type: 'string' },
    token: { type: 'string' },
    'test-token': { type: 'boolean', default: false },
    mint: { type: 'string' },
    contract: { type: 'string' },
    withdraw: { type: 'string' },
    treasury: { type: 'string' },
    'platform-bps': { type: 'string', default: '200' },
    'evaluator-bps': { type: 'string', default: '500' },
    'min-expiry-seconds': { type: 'string', default: '60' },
    'evaluation-seconds': { type: 'string', default: '259200' },
  },
});
const { rpc, key: keyFile } = values;
if (!rpc || !keyFile || (!values.token && !values['test-token'])) {
  throw new Error(
    'Required: --rpc URL, --key FILE (a file with 0x and 64 hex digits), and --token or --test-token.',
  );
}

const account = privateKeyToAccount(readFileSync(keyFile, 'utf8').trim() as Hex);
const chain = createWalletClient({ account, transport: http(rpc) }).extend(publicActions);
try {
  await run();
} catch (error) {
  const { shortMessage, details, message } = error as Error & Record<string, string | undefined>;
  console.error(shortMessage ? `${rpc}: ${shortMessage} ${details ?? ''}` : message);
  process.exitCode = 1;
}

async function run(): Promise<void> {
  const token = (values.token as Hex | undefined) ?? (await deploy(artifact('test'), []));
  if (values.mint) return mint(token, values.mint);
  if (values.withdraw) return withdraw(token, values.withdraw as Hex);
  const contract = await deploy(artifact('escrow'), [
    values.treasury ?? account.address,
    BigInt(values['platform-bps']),
    BigInt(values['evaluator-bps']),
    BigInt(values['min-expiry-seconds']),
    BigInt(values['evaluation-seconds']),
  ]);
  const operatorKeyFile = resolve(keyFile!);
  // A test token must not use the name of real money.
  const name = values['test-token'] ? { currency: 'TEST' } : {};
  const evm = { rpcUrl: rpc, contract, token, operatorKeyFile, ...name };
  console.log(JSON.stringify({ escrow: { settlement: 'evm', evm } }, null, 2));
}

interface Artifact {
  abi: Abi;
  bytecode: Hex;
}

function artifact(which: 'escrow' | 'test'): Artifact {
  const path =
    which === 'escrow'
      ? 'src/kinds/escrow/settlement/evm/contract.json'
      : 'test/kinds/escrow/settlement/evm/TestToken.json';
  return JSON.parse(readFileSync(join(root, path), 'utf8')) as Artifact;
}

async function deploy({ abi, bytecode }: Artifact, args: unknown[]): Promise<Hex> {
  const hash = await chain.deployContract({ abi, bytecode, args, chain: null });
  const { contractAddress } = await chain.waitForTransactionReceipt({ hash });
  if (!contractAddress) throw new Error(`The chain created no contract in transaction ${hash}.`);
  return contractAddress;
}

async function mint(token: Hex, grant: string): Promise<void> {
  const [to, units = ''] = grant.split('=');
  const { abi } = artifact('test');
  const call = { address: token, abi, functionName: 'mint', args: [to, parseUnits(units, 6)] };
  const hash = await chain.writeContract({ ...call, chain: null });
  await chain.waitForTransactionReceipt({ hash });
}

/** Anyone may call this: the contract pays the address directly. */
async function withdraw(token: Hex, account: Hex): Promise<void> {
  if (!values.contract) throw new Error('--withdraw requires --contract 0x….');
  const { abi } = artifact('escrow');
  const address = values.contract as Hex;
  const waiting = { address, abi, functionName: 'credits', args: [account, token] };
  const amount = (await chain.readContract(waiting)) as bigint;
  if (amount > 0n) {
    const call = { address, abi, functionName: 'withdraw', args: [token, account] };
    const hash = await chain.writeContract({ ...call, chain: null });
    const { status } = await chain.waitForTransactionReceipt({ hash });
    if (status !== 'success') throw new Error(`The chain reverted transaction ${hash}.`);
  }
  console.log(`${formatUnits(amount, 6)} sent to ${account}`);
}
