// The deploy script: it prints a config.json with which a server settles on the deployed contract.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { escrowSettingsSchema } from '../../../../../src/kinds/escrow/settings.ts';
import { operatorAddress, startAnvil } from './anvil.ts';
import { createChainWorld } from './chain-world.ts';
import { posted } from '../../world.ts';

const script = join(import.meta.dirname, '../../../../../scripts/deploy-escrow.ts');

test('a deployed contract accepts jobs with the requested terms', async (t) => {
  const anvil = await startAnvil(t, Date.UTC(2027, 0, 1) / 1000);
  const run = async (...order: string[]) => {
    const args = [script, '--rpc', anvil.url, '--key', anvil.keyFile, ...order];
    return (await promisify(execFile)(process.execPath, args)).stdout;
  };
  const stdout = await run('--test-token', '--evaluator-bps', '300');
  const { escrow } = JSON.parse(stdout) as { escrow: object };
  const { settlement, evm } = escrowSettingsSchema.parse(escrow);
  assert.equal(settlement, 'evm');
  assert.equal(evm!.currency, 'TEST', 'a worthless test token does not use the name of real money');
  const [escrowAddress, tokenAddress] = [evm!.contract as '0x', evm!.token as '0x'];
  const world = await createChainWorld(t, { chained: { anvil, escrowAddress, tokenAddress } });
  await run('--token', tokenAddress, '--mint', `${operatorAddress}=12.50`);
  assert.equal(await world.tokens(operatorAddress), 12_500_000);
  const [client, provider] = [await world.agent('client'), await world.agent('provider')];
  const { id } = await posted(world, client, provider);
  assert.equal((await world.settled(id)).settlementId, '1');
  const read = await world.call(client, 'read_work', { id, exact: true });
  const spec = Buffer.from(read.specBytes, 'base64').toString('utf8');
  assert.deepEqual(JSON.parse(spec).fees, { platformBps: 200, evaluatorBps: 300 });
});
