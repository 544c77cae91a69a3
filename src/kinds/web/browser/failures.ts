// Explains why the browser could not load a page. The browser only knows that its proxy rejected a request; the proxy
// reports the reason here.
import { AppError } from '../../../errors.ts';

const maxRefusals = 200;

export class Failures {
  private readonly refused = new Map<string, AppError>();
  private last: AppError | undefined;

  /** Called by the proxy. `to` is a URL, or host:port for a tunnel. */
  noteRefusal(to: string, error: AppError): void {
    this.last = error;
    this.refused.set(hostOf(to), error);
    if (this.refused.size > maxRefusals) this.refused.delete(this.refused.keys().next().value!);
  }

  /** Called when the browser rejects a certificate that the operator does not trust either. */
  noteCertificate(url: string, reason: string): void {
    this.noteRefusal(url, certificateError(url, reason));
  }

  forget(url: string): void {
    this.refused.delete(hostOf(url));
    this.last = undefined;
  }

  /** `isAlone`: no other page is open, so the last refusal belongs to this page, for example after a redirect. */
  explain(error: unknown, url: string, isAlone: boolean): unknown {
    if (error instanceof AppError) return error;
    const { message, name } = error as Error;
    const refusal = this.refused.get(hostOf(url)) ?? (isAlone ? this.last : undefined);
    if (refusal && /ERR_TUNNEL|ERR_PROXY|ERR_EMPTY|ERR_ABORTED|ERR_INVALID/.test(message))
      return refusal;
    const where = url === '' ? 'The page' : url.slice(0, 200);
    const cause = { cause: error };
    if (name === 'TimeoutError')
      return new AppError('timeout', `The page did not load in time: ${firstLine(message)}`, cause);
    const certificate = /ERR_CERT_\w+/.exec(message)?.[0];
    if (certificate !== undefined) return certificateError(url, certificate, error);
    if (/Download is starting|ERR_ABORTED/.test(message))
      return new AppError(
        'browserFailed',
        `${where} is not a page: it is a download, or it has no content.`,
        {
          hint: 'read_page reads PDFs, text, JSON and feeds without a browser.',
          ...cause,
        },
      );
    if (/closed|crashed|disconnected/i.test(message)) {
      return new AppError('unavailable', 'The browser closed while the page was open.', {
        hint: 'Try again. A new browser starts automatically.',
        ...cause,
      });
    }
    return new AppError('browserFailed', `${where}: ${firstLine(message)}`, cause);
  }
}

function certificateError(url: string, reason: string, cause?: unknown): AppError {
  const host = hostOf(url);
  return new AppError('browserFailed', `The certificate of ${host} is not trusted (${reason}).`, {
    hint: `If the host is yours, add "${host}" with the certificate's fingerprint to \`egress.trustCertificates\` in the server's config.json and restart the server.`,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The first line has the message. The rest is the driver's log. */
export const firstLine = (text: string): string => text.split('\n')[0]!.slice(0, 300);

function hostOf(to: string): string {
  const url = URL.parse(to.includes('://') ? to : `https://${to}`);
  return url?.host ?? to;
}
