// A real server with two wallets, one of them funded, for tests that need the whole program. It uses its own ledger or a
// chain.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';
import type { LiveChain } from './settlement/evm/chain-home.ts';

export type Json = ReturnType<typeof JSON.parse>;

const startUnits = 100;

export async function openBank(
  t: TestContext,
  config: { escrow?: object } & Record<string, unknown>,
  chain?: LiveChain,
) {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  const escrow = { ...chain?.settings, ...config.escrow };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ ...config, escrow }));
  const server = await startServer(t, { home });
  const call = async (on: TestServer, method: string, path: string, body?: unknown) => {
    const answer = await on.api(method, path, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.json<Json>();
  };
  const wallet = (name: string): Promise<Json> => call(server, 'POST', '/api/wallets', { name });
  const [client, provider] = [await wallet('client'), await wallet('provider')];
  if (chain) await chain.mint(client.address, startUnits * 1_000_000);
  else {
    const mint = { wallet: client.id, amount: String(startUnits), transferId: 'start' };
    await call(server, 'POST', '/api/escrow/mint', mint);
  }
  /** The balances of both, in micro-units. */
  const funds = async (on: TestServer): Promise<[client: number, provider: number]> => {
    if (chain) return [await chain.owns(client.address), await chain.owns(provider.address)];
    const { wallets } = await call(on, 'GET', '/api/wallets');
    const of = (id: string) => Number(wallets.find((one: Json) => one.id === id).balanceMicro);
    return [of(client.id), of(provider.id)];
  };
  return {
    home,
    server,
    call,
    client: client.id as string,
    provider: provider.id as string,
    funds,
  };
}
