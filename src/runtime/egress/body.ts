// A response body: read completely or in chunks, decoded, and never larger than its limit.
import { AppError } from '../../errors.ts';
import { type Codec, decodeBytes, decodeChunks, isOverCap } from './decode.ts';
import { failed, tooLarge } from './failure.ts';
import type { Transfer } from './transfer.ts';

interface BodyOptions {
  url: string;
  maxBytes: number;
  chain: Codec[];
  explain(error: unknown): Error;
}

/** Read it once or discard it. An unread body holds its connection until the timeout. */
export class EgressBody implements AsyncIterable<Buffer> {
  private readonly transfer: Transfer;
  private readonly options: BodyOptions;

  constructor(transfer: Transfer, options: BodyOptions) {
    this.transfer = transfer;
    this.options = options;
  }

  async bytes(): Promise<Buffer> {
    const { chain, maxBytes } = this.options;
    try {
      const raw = await this.transfer.readAll();
      return chain.length === 0 ? raw : await decodeBytes(raw, chain, maxBytes);
    } catch (error) {
      throw this.explain(error);
    }
  }

  async text(): Promise<string> {
    return (await this.bytes()).toString('utf8');
  }

  async json(): Promise<unknown> {
    const text = await this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      throw failed(this.options.url, 'json', 'the response is not JSON', error);
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { chain, maxBytes, url } = this.options;
    let bytes = 0;
    try {
      for await (const chunk of decodeChunks(this.transfer.chunks, chain)) {
        bytes += chunk.length;
        if (bytes > maxBytes) throw tooLarge(url, maxBytes);
        yield chunk;
      }
    } catch (error) {
      throw this.explain(error);
    } finally {
      this.transfer.discard();
    }
  }

  /** Releases the rest of the body. */
  discard(): void {
    this.transfer.discard();
  }

  private explain(error: unknown): Error {
    const { url, maxBytes, explain } = this.options;
    if (isOverCap(error)) return tooLarge(url, maxBytes);
    const { code } = error as NodeJS.ErrnoException;
    if (
      !(error instanceof AppError) &&
      /^(Z_|ERR_BROTLI|ERR__ERROR|ERR_ZSTD|ZSTD_)/.test(code ?? '')
    )
      return failed(url, 'encoding', 'the content encoding is invalid', error);
    return explain(error);
  }
}
