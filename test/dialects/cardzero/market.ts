// A market for the CardZero dialect tests: the real server, and parties with their own wallets and bound keys.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';

export type Json = ReturnType<typeof JSON.parse>;

export interface Party {
  id: string;
  address: string;
  key: string;
}

export interface Market {
  server: TestServer;
  /** Calls as a party, or without a key. */
  call(who: Party | undefined, method: string, path: string, body?: unknown): Promise<Answer>;
  /** With `owner`, somebody other than the home's owner claims the wallet. */
  party(name: string, credit?: string, owner?: string): Promise<Party>;
  /** The operator: the owner of the home. */
  operator: Party;
  api(method: string, path: string, body?: unknown): Promise<Json>;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Json;
  text: string;
}

const daySeconds = 86_400;
const inTwoDays = () => Math.floor(Date.now() / 1000) + 2 * daySeconds;

export async function openMarket(
  t: TestContext,
  allow: string[] = [],
  escrow: Record<string, unknown> = {},
): Promise<Market> {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const config = { escrow: { openWallets: true, sweepMs: 50, ...escrow }, egress: { allow } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  const server = await startServer(t, { home });
  const call: Market['call'] = async (who, method, path, body) => {
    const response = await fetch(`${server.url}/cardzero/v1${path}`, {
      method,
      headers: {
        ...(who ? { authorization: `Bearer ${who.key}` } : {}),
        'content-type': 'application/json',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const parsed = text === '' ? undefined : JSON.parse(text);
    return { status: response.status, headers: response.headers, text, body: parsed };
  };
  const operator = { id: '', address: '', key: server.key };
  const api = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await server.api(method, path, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.json();
  };
  return {
    server,
    call,
    operator,
    api,
    party: async (name, credit, owner) => {
      const opened = await call(undefined, 'POST', '/wallets', { name });
      assert.equal(opened.status, 201, opened.text);
      const { id, chainAddress, claimKey } = opened.body;
      const claimer = owner
        ? { ...operator, key: (await api('POST', '/api/keys', { owner })).key as string }
        : operator;
      const claimed = await call(claimer, 'POST', '/auth/claim', { claimKey });
      assert.equal(claimed.status, 201, claimed.text);
      if (credit !== undefined) {
        const input = { wallet: id, amount: credit, transferId: `start-${id}` };
        await api('POST', '/api/escrow/mint', input);
      }
      return { id, address: chainAddress, key: claimed.body.agentConfig.apiKey };
    },
  };
}

export const jobOf = (provider: Party, more: Record<string, unknown> = {}) => ({
  providerAddress: provider.address,
  budgetUsdc: '1000000',
  expiredAt: inTwoDays(),
  title: 'Translate',
  description: 'To French.',
  evaluatorRule: { type: 'manual' },
  ...more,
});

/** A local page that guarded requests may reach, because the test server allows its address. */
export async function page(t: TestContext, answer: () => { status: number; body: string }) {
  const server: Server = createServer((_request, response) => {
    const { status, body } = answer();
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/result.json`, host: `127.0.0.1:${port}` };
}
