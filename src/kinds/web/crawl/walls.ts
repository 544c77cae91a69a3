// Walls that let nobody in without a cookie: an address sends its visitors away to be given one, or back to itself, and
// takes them when they come with it. What opened a wall is sent along from then on; other cookies (languages, carts) are
// not, because a page must not depend on those that were read before it.
import { isRedirect, sentBack, type Fetched } from '../fetch/fetcher.ts';

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
}

type Cookies = Map<string, string>;

const hopsMax = 5;
const cookieCharsMax = 4096;
const hostsMax = 1000;

export class Walls {
  /** By host. */
  private readonly opened: Cookies = new Map();
  /** Given with redirects; not known to open anything. */
  private readonly offered: Cookies = new Map();
  private readonly tried = new Set<string>();

  /** The last answer of the address itself, or of another spelling of it. */
  async pass(approach: Approach): Promise<Fetched> {
    const { url, isWalled, isSame, ask } = approach;
    const cookies: Cookies = new Map([...(isWalled ? this.offered : []), ...this.opened]);
    let at = url;
    let answer = await ask(at, cookies.get(at.host));
    let own = { answer, url: at, cookie: cookies.get(at.host) };
    for (let hop = 0; hop < hopsMax && isRedirect(answer); hop++) {
      take(cookies, at.host, answer);
      const target = URL.parse(answer.headers.location!, at.href);
      if (!target) break;
      target.hash = '';
      const isBack = isSame(target);
      // Asked for in the same way, it would answer the same.
      const isRepeated = target.href === own.url.href && cookies.get(target.host) === own.cookie;
      if (isBack ? isRepeated : !(await this.isWorth(approach, at, target, answer))) break;
      const next = await ask(target, cookies.get(target.host)).catch((error: unknown) => {
        if (isBack || isWalled) throw error;
      });
      if (!next) break;
      at = target;
      answer = next;
      if (isBack) own = { answer, url: at, cookie: cookies.get(at.host) };
    }
    if (isRedirect(own.answer)) take(this.offered, url.host, own.answer);
    else if (own.answer.status < 400)
      for (const [host, cookie] of cookies) keep(this.opened, host, cookie);
    return own.answer;
  }

  /** Whether to look where an address sends its visitors: once for each cookie it gives them on the way. */
  private async isWorth(
    { isWalled, isDetour, mayAsk }: Approach,
    { host }: URL,
    target: URL,
    { headers }: Fetched,
  ): Promise<boolean> {
    if (!isWalled) {
      const given = headers['set-cookie'];
      if (isDetour || given === undefined) return false;
      const mark = `${host} ${sentBack(given).replace(/=[^;]*/g, '')}`;
      if (this.tried.has(mark) || this.tried.size >= hostsMax) return false;
      this.tried.add(mark);
    }
    return mayAsk(target);
  }
}

function take(cookies: Cookies, host: string, { headers }: Fetched): void {
  const given = headers['set-cookie'];
  if (given !== undefined) keep(cookies, host, sentBack(given, cookies.get(host)));
}

function keep(cookies: Cookies, host: string, cookie: string): void {
  if (cookie.length > cookieCharsMax || (cookies.size >= hostsMax && !cookies.has(host))) return;
  cookies.set(host, cookie);
}
