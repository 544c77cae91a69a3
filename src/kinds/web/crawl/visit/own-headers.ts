// Sends the caller's headers, which often contain secrets, only to the hosts of the start URLs.
import type { CrawlOptions } from '../options.ts';
import { bareHost } from '../frontier/scope.ts';
import { parseUrl } from '../../url.ts';

type Headers = Readonly<Record<string, string>>;

export class OwnHeaders {
  private readonly headers: Headers;
  /** By host: whether the headers require https, because every start on that host uses https. */
  private readonly hosts = new Map<string, boolean>();

  constructor({ headers = {}, url: first, urls = [] }: CrawlOptions) {
    const given = Object.entries(headers);
    this.headers = Object.fromEntries(given.map(([name, value]) => [name.toLowerCase(), value]));
    for (const start of first === undefined ? urls : [first, ...urls]) {
      const { host, protocol } = parseUrl(start);
      const isSecret = this.hosts.get(bareHost(host)) ?? true;
      this.hosts.set(bareHost(host), isSecret && protocol === 'https:');
    }
  }

  for({ host, protocol }: URL): Headers {
    const isSecret = this.hosts.get(bareHost(host));
    return isSecret === undefined || (isSecret && protocol !== 'https:') ? {} : this.headers;
  }
}
