// Sends a caller's headers only to the host of one page.
import type { Page } from 'playwright-core';

/**
 * A key for one site must not reach other sites that its pages load or redirect to. Playwright's own methods would send it
 * there (extraHTTPHeaders to every host, headers of a routed request along its redirects).
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
  // With request interception enabled, the browser also asks this session for the proxy password.
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
