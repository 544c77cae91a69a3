// Lets pages load from hosts whose certificate the operator trusts (`egress.trustCertificates`). The browser checks
// certificates itself and knows only those that an authority signed.
import type { Page } from 'playwright-core';

export async function acceptCertificates(
  page: Page,
  isTrusted: (url: string) => Promise<boolean>,
  onRefused: (url: string, reason: string) => void,
): Promise<void> {
  const session = await page.context().newCDPSession(page);
  session.on('Security.certificateError', ({ eventId, errorType, requestURL }) => {
    isTrusted(requestURL)
      .then((trusted) => {
        const action = trusted ? 'continue' : 'cancel';
        if (!trusted) onRefused(requestURL, errorType);
        return session.send('Security.handleCertificateError', { eventId, action });
      })
      .catch(() => {});
  });
  await session.send('Security.enable');
  await session.send('Security.setOverrideCertificateErrors', { override: true });
}
