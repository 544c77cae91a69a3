// Why a page could not be had, in words: the browser itself only knows that its proxy said no.
import { AppError } from '../../../errors.ts';

const heardMax = 200;

export class Failures {
  private readonly refused = new Map<string, AppError>();
  private last: AppError | undefined;

  /** From the proxy: `to` is a URL, or host:port of a tunnel. */
  heard(to: string, error: AppError): void {
    this.last = error;
    this.refused.set(hostOf(to), error);
    if (this.refused.size > heardMax) this.refused.delete(this.refused.keys().next().value!);
  }

  forget(url: string): void {
    this.refused.delete(hostOf(url));
    this.last = undefined;
  }

  /** Alone: no other page is open, so the last refusal is of this one (a redirect elsewhere). */
  explained(error: unknown, url: string, isAlone: boolean): unknown {
    if (error instanceof AppError) return error;
    const { message, name } = error as Error;
    const refusal = this.refused.get(hostOf(url)) ?? (isAlone ? this.last : undefined);
    if (refusal && /ERR_TUNNEL|ERR_PROXY|ERR_EMPTY|ERR_ABORTED|ERR_INVALID/.test(message))
      return refusal;
    const where = url === '' ? 'The page' : url.slice(0, 200);
    const cause = { cause: error };
    if (name === 'TimeoutError')
      return new AppError('timeout', `The page did not load in time: ${firstLine(message)}`, cause);
    if (/Download is starting|ERR_ABORTED/.test(message))
      return new AppError('browserFailed', `${where} is no page: a file to download, or nothing.`, {
        hint: 'read_page reads PDFs, text, JSON and feeds without a browser.',
        ...cause,
      });
    if (/closed|crashed|disconnected/i.test(message)) {
      return new AppError('unavailable', 'The browser ended while it had the page.', {
        hint: 'Try again: a new one is started.',
        ...cause,
      });
    }
    return new AppError('browserFailed', `${where}: ${firstLine(message)}`, cause);
  }
}

/** The first line says what, the rest is the log of the driver. */
export const firstLine = (text: string): string => text.split('\n')[0]!.slice(0, 300);

function hostOf(to: string): string {
  const url = URL.parse(to.includes('://') ? to : `https://${to}`);
  return url?.host ?? to;
}
