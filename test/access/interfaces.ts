// HTTP and MCP for an app in this process, mounted like in the server.
import type { TestContext } from 'node:test';
import { ownerCaller } from '../../src/access/keys.ts';
import { dialects, type App } from '../../src/app.ts';
import { httpSettings } from '../../src/config.ts';
import { createHttpInterface } from '../../src/interfaces/http/index.ts';
import { createMcpInterface } from '../../src/interfaces/mcp/index.ts';
import { silentLog } from '../../src/runtime/log.ts';

export async function openInterfaces(
  t: TestContext,
  { operations, access, sessions, cookieTag, clock }: App,
): Promise<{ url: string; stopInterfaces(): Promise<void> }> {
  const owner = ownerCaller(true);
  const common = { operations, dialects, owner, version: '1', clock, log: silentLog };
  const httpInterface = createHttpInterface({
    ...common,
    authenticate: (key) => access.authenticate(key),
    sessions,
    cookieTag,
    limits: httpSettings.parse({ addressRate: 0, keyRate: 0, stopTimeoutMs: 5000 }),
  });
  const mcp = createMcpInterface({ ...common, maxBodyBytes: 1e6 });
  httpInterface.mount('/mcp', (request, response, { caller, becomeStream }) => {
    if (request.headers['mcp-method'] === 'subscriptions/listen') becomeStream();
    return mcp.http.handle(request, response, caller);
  });
  const stopInterfaces = async () => {
    await mcp.http.close();
    await httpInterface.stop();
  };
  t.after(stopInterfaces);
  const { url } = await httpInterface.listenTcp({ port: 0, host: '127.0.0.1' });
  return { url, stopInterfaces };
}
