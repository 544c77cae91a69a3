// Fetches URLs that redirect visitors to set a cookie and accept them only with it. Cookies that made such a URL accessible
// are sent with all later requests. Other cookies (languages, carts) are not, because a page must not depend on the pages
// read before it.
import { CookieJar, cookieNames } from '../../fetch/cookies.ts';
import { isRedirect, type Fetched } from '../../fetch/fetcher.ts';

interface CookieRequest {
  url: URL;
  /** An earlier redirect of this URL led back to it, so all cookies are sent, as a browser would. */
  sendsCookies: boolean;
  /** A redirect led here. The crawl handles further redirects. */
  isRedirectTarget: boolean;
  /** Whether this is another spelling of the same URL, for example with a session id. */
  isSame(url: URL): boolean;
  mayAsk(url: URL): Promise<boolean>;
  ask(url: URL, cookie: string | undefined): Promise<Fetched>;
  /** Waits for the host's delay between two requests. */
  pause(url: URL): Promise<void>;
}

const maxHops = 5;
const maxTried = 1000;

export class CookieRedirects {
  private readonly opened = new CookieJar();
  /** Cookies set by redirects that did not lead to a page so far. */
  private readonly offered = new CookieJar();
  private readonly tried = new Set<string>();

  /** Returns the last response of the URL itself or of an equivalent spelling. */
  async load(approach: CookieRequest): Promise<Fetched> {
    const { url, sendsCookies, isSame, mayAsk, pause, ask } = approach;
    const cookies = new CookieJar(this.opened, ...(sendsCookies ? [this.offered] : []));
    const request = async (at: URL) => {
      const cookie = cookies.of(at);
      return { url: at, cookie, answer: await ask(at, cookie) };
    };
    let last = await request(url);
    let own = last;
    let hop = 0;
    for (; hop < maxHops && isRedirect(last.answer); hop++) {
      cookies.take(last.url, last.answer.headers['set-cookie']);
      const target = URL.parse(last.answer.headers.location!, last.url.href);
      if (!target) break;
      target.hash = '';
      const isBack = isSame(target);
      // The same request would get the same response.
      const isRepeated = target.href === own.url.href && cookies.of(target) === own.cookie;
      const isOnTheWay = sendsCookies || last !== own;
      const mayGo = isBack
        ? !isRepeated
        : isOnTheWay || this.isWorthFollowing(approach, last.answer, target);
      if (!mayGo || (!isBack && !(await mayAsk(target)))) break;
      await pause(target);
      const next = await request(target).catch((error: unknown) => {
        if (isBack || sendsCookies) throw error;
      });
      if (!next) break;
      last = next;
      if (isBack) own = last;
    }
    if (isRedirect(own.answer)) this.offered.take(own.url, own.answer.headers['set-cookie']);
    else if (own.answer.status < 400 && (sendsCookies || hop > 0)) this.opened.add(cookies);
    return own.answer;
  }

  /**
   * Whether to follow a redirect within this visit: only if it sets a cookie, or if its target mentions the URL it came
   * from. Each cookie and each such target is tried once.
   */
  private isWorthFollowing(
    { url, isRedirectTarget }: CookieRequest,
    { headers }: Fetched,
    target: URL,
  ): boolean {
    if (isRedirectTarget || this.tried.size >= maxTried) return false;
    const given = headers['set-cookie'];
    const id =
      given === undefined ? target.host + target.pathname : `${url.host} ${cookieNames(given)}`;
    if (this.tried.has(id) || (given === undefined && !mentionsPath(target, url))) return false;
    this.tried.add(id);
    return true;
  }
}

/** Whether the query contains the path, as in `?back=/docs/intro`. */
function mentionsPath({ search }: URL, { pathname }: URL): boolean {
  return pathname.length > 1 && [search, unescaped(search)].some((text) => text.includes(pathname));
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
