// Headers of a caller for the host of one page, and for no other.
import type { Page } from 'playwright-core';

/**
 * A key for one site is not for the sites its pages load things from, nor for where it redirects to. Playwright's own
 * ways send it there too (extraHTTPHeaders to everybody, a routed request's headers along its redirects).
 */
export async function sendHeaders(
  page: Page,
  host: string,
  headers: Record<string, string>,
  proxy: { username: string; password: string } | undefined,
): Promise<void> {
  const session = await page.context().newCDPSession(page);
  session.on('Fetch.requestPaused', ({ requestId, request }) => {
    const all = Object.entries({ ...request.headers, ...headers });
    const sent = all.map(([name, value]) => ({ name, value }));
    session.send('Fetch.continueRequest', { requestId, headers: sent }).catch(() => {});
  });
  // Whoever looks into a request is also asked for the proxy's password.
  session.on('Fetch.authRequired', ({ requestId, authChallenge }) => {
    const known = authChallenge.source === 'Proxy' && proxy;
    const answer = known
      ? { response: 'ProvideCredentials' as const, ...known }
      : { response: 'Default' as const };
    session
      .send('Fetch.continueWithAuth', { requestId, authChallengeResponse: answer })
      .catch(() => {});
  });
  const patterns = [{ urlPattern: `*://${host}/*` }];
  await session.send('Fetch.enable', { patterns, handleAuthRequests: true });
}
