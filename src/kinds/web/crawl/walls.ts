// Walls that let nobody in without a cookie: an address sends its visitors away to be given one, or back to itself, and
// takes them when they come with it. What opened a wall is sent along from then on; other cookies (languages, carts) are
// not, because a page must not depend on those that were read before it.
import { CookieJar, cookieNames } from '../fetch/cookies.ts';
import { isRedirect, type Fetched } from '../fetch/fetcher.ts';

export interface Approach {
  url: URL;
  /** It was sent away before, by a way that led back: asked as a browser would. */
  isWalled: boolean;
  /** A redirect led here: where it leads on is for the crawl to find out. */
  isDetour: boolean;
  /** Another spelling of the same address, such as one with a session id. */
  isSame(url: URL): boolean;
  mayAsk(url: URL): Promise<boolean>;
  ask(url: URL, cookie: string | undefined): Promise<Fetched>;
  /** Waits as long as its host wants between two requests. */
  pause(url: URL): Promise<void>;
}

const hopsMax = 5;
const triedMax = 1000;

export class Walls {
  private readonly opened = new CookieJar();
  /** Given with redirects; not known to open anything. */
  private readonly offered = new CookieJar();
  private readonly tried = new Set<string>();

  /** The last answer of the address itself, or of another spelling of it. */
  async pass(approach: Approach): Promise<Fetched> {
    const { url, isWalled, isSame, mayAsk, pause, ask } = approach;
    const cookies = new CookieJar(this.opened, ...(isWalled ? [this.offered] : []));
    const request = async (at: URL) => {
      const cookie = cookies.of(at);
      return { url: at, cookie, answer: await ask(at, cookie) };
    };
    let last = await request(url);
    let own = last;
    let hop = 0;
    for (; hop < hopsMax && isRedirect(last.answer); hop++) {
      cookies.take(last.url, last.answer.headers['set-cookie']);
      const target = URL.parse(last.answer.headers.location!, last.url.href);
      if (!target) break;
      target.hash = '';
      const isBack = isSame(target);
      // Asked for in the same way, it would answer the same.
      const isRepeated = target.href === own.url.href && cookies.of(target) === own.cookie;
      const isOnTheWay = isWalled || last !== own;
      const mayGo = isBack
        ? !isRepeated
        : isOnTheWay || this.isWorth(approach, last.answer, target);
      if (!mayGo || (!isBack && !(await mayAsk(target)))) break;
      await pause(target);
      const next = await request(target).catch((error: unknown) => {
        if (isBack || isWalled) throw error;
      });
      if (!next) break;
      last = next;
      if (isBack) own = last;
    }
    if (isRedirect(own.answer)) this.offered.take(own.url, own.answer.headers['set-cookie']);
    else if (own.answer.status < 400 && (isWalled || hop > 0)) this.opened.add(cookies);
    return own.answer;
  }

  /**
   * Whether to look where an address sends its visitors: if it gives them a cookie on the way, or tells where they came
   * from. Once for each cookie and each such place.
   */
  private isWorth({ url, isDetour }: Approach, { headers }: Fetched, target: URL): boolean {
    if (isDetour || this.tried.size >= triedMax) return false;
    const given = headers['set-cookie'];
    const mark =
      given === undefined ? target.host + target.pathname : `${url.host} ${cookieNames(given)}`;
    if (this.tried.has(mark) || (given === undefined && !names(target, url))) return false;
    this.tried.add(mark);
    return true;
  }
}

/** `?back=/docs/intro`, or the whole address. */
function names({ search }: URL, { pathname }: URL): boolean {
  return pathname.length > 1 && [search, unescaped(search)].some((text) => text.includes(pathname));
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
