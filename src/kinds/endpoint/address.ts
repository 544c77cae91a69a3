// Where workers reach this server. Written down, because they outlive it: the next server comes to the same place.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface AddressNeeds {
  folder: string;
  openBaseUrl(port?: number): Promise<string>;
}

export class Address {
  private readonly file: string;
  private readonly openBaseUrl: AddressNeeds['openBaseUrl'];

  constructor({ folder, openBaseUrl }: AddressNeeds) {
    this.file = join(folder, 'address');
    this.openBaseUrl = openBaseUrl;
  }

  /** For a worker that is to be started. */
  async open(): Promise<string> {
    const last = this.last();
    const url = await this.openBaseUrl(portOf(last));
    if (url !== last) writeFileSync(this.file, url, { mode: 0o600 });
    return url;
  }

  /** Whether workers of the server before this one reach it. */
  async isKept(): Promise<boolean> {
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
