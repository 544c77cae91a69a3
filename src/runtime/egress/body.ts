// The body of an answer: whole or piece by piece, decoded, never more than its cap.
import { AppError } from '../../errors.ts';
import { type Codec, decodeBytes, decodeChunks, isOverCap } from './decode.ts';
import { failed, tooLarge } from './failure.ts';
import type { Transfer } from './transfer.ts';

export interface BodyOptions {
  url: string;
  bytesMax: number;
  chain: Codec[];
  explain(error: unknown): Error;
}

/** Read it once, in one way, or discard it: an answer that nobody reads holds its connection until its timeout. */
export class EgressBody implements AsyncIterable<Buffer> {
  private readonly transfer: Transfer;
  private readonly options: BodyOptions;

  constructor(transfer: Transfer, options: BodyOptions) {
    this.transfer = transfer;
    this.options = options;
  }

  async bytes(): Promise<Buffer> {
    const { chain, bytesMax } = this.options;
    try {
      const raw = await this.transfer.whole();
      return chain.length === 0 ? raw : await decodeBytes(raw, chain, bytesMax);
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
      throw failed(this.options.url, 'json', 'its answer is not JSON', error);
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { chain, bytesMax, url } = this.options;
    let bytes = 0;
    try {
      for await (const chunk of decodeChunks(this.transfer.chunks, chain)) {
        bytes += chunk.length;
        if (bytes > bytesMax) throw tooLarge(url, bytesMax);
        yield chunk;
      }
    } catch (error) {
      throw this.explain(error);
    } finally {
      this.transfer.discard();
    }
  }

  /** Lets go of what is left. */
  discard(): void {
    this.transfer.discard();
  }

  private explain(error: unknown): Error {
    const { url, bytesMax, explain } = this.options;
    if (isOverCap(error)) return tooLarge(url, bytesMax);
    const { code } = error as NodeJS.ErrnoException;
    if (
      !(error instanceof AppError) &&
      /^(Z_|ERR_BROTLI|ERR__ERROR|ERR_ZSTD|ZSTD_)/.test(code ?? '')
    )
      return failed(url, 'encoding', 'its content encoding is broken', error);
    return explain(error);
  }
}
