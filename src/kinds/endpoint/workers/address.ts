// The address at which workers reach this server. It is stored, because workers outlive the server and the next one
// listens there again.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface AddressDeps {
  folder: string;
  openBaseUrl(port?: number): Promise<string>;
}

export class Address {
  private readonly file: string;
  private readonly openBaseUrl: AddressDeps['openBaseUrl'];

  constructor({ folder, openBaseUrl }: AddressDeps) {
    this.file = join(folder, 'address');
    this.openBaseUrl = openBaseUrl;
  }

  /** Opens the address for a new worker. */
  async open(): Promise<string> {
    const last = this.last();
    const url = await this.openBaseUrl(portOf(last));
    if (url !== last) writeFileSync(this.file, url, { mode: 0o600 });
    return url;
  }

  /** Returns whether workers of the previous server still reach this one. */
  async isUnchanged(): Promise<boolean> {
    const last = this.last();
    return last === undefined || (await this.openBaseUrl(portOf(last))) === last;
  }

  private last(): string | undefined {
    return existsSync(this.file) ? readFileSync(this.file, 'utf8') : undefined;
  }
}

function portOf(url: string | undefined): number | undefined {
  const port = url === undefined ? 0 : Number(URL.parse(url)?.port);
  return port > 0 ? port : undefined;
}
