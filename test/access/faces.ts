// HTTP and MCP in front of an app in this process, mounted as the server mounts them.
import type { TestContext } from 'node:test';
import { ownerCaller } from '../../src/access/access.ts';
import { dialects, type App } from '../../src/app.ts';
import { httpSettings } from '../../src/config.ts';
import { createHttpFace } from '../../src/faces/http/index.ts';
import { createMcpFace } from '../../src/faces/mcp/index.ts';
import { silentLog } from '../../src/runtime/log.ts';

export async function openFaces(
  t: TestContext,
  { operations, access, clock }: App,
): Promise<{ url: string; stopFace(): Promise<void> }> {
  const owner = ownerCaller(true);
  const common = { operations, dialects, owner, version: '1', clock, log: silentLog };
  const face = createHttpFace({
    ...common,
    authenticate: (key) => access.authenticate(key),
    limits: httpSettings.parse({ addressRate: 0, keyRate: 0, stopTimeoutMs: 5000 }),
  });
  const mcp = createMcpFace({ ...common, bodyBytesMax: 1e6 });
  face.mount('/mcp', (request, response, { caller, becomeStream }) => {
    if (request.headers['mcp-method'] === 'subscriptions/listen') becomeStream();
    return mcp.http.handle(request, response, caller);
  });
  const stopFace = async () => {
    await mcp.http.close();
    await face.stop();
  };
  t.after(stopFace);
  const { url } = await face.listenTcp({ port: 0, host: '127.0.0.1' });
  return { url, stopFace };
}
