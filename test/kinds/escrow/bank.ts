// A real server with two funded wallets, for tests that need the whole program.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';

export type Json = ReturnType<typeof JSON.parse>;

export async function openBank(t: TestContext, config: object) {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  const server = await startServer(t, { home });
  const call = async (on: TestServer, method: string, path: string, body?: unknown) => {
    const answer = await on.api(method, path, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.json<Json>();
  };
  const wallet = async (name: string): Promise<string> =>
    (await call(server, 'POST', '/api/wallets', { name })).id;
  const [client, provider] = [await wallet('client'), await wallet('provider')];
  const mint = { wallet: client, amount: '100', transferId: 'start' };
  await call(server, 'POST', '/api/escrow/mint', mint);
  return { home, server, call, client, provider };
}
