// What the kind needs of page reading: bytes in, page or filled schema out (threads do the work).
import type { Page, PageOptions } from '../content/types.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';

export interface Reader {
  read(body: Uint8Array | string, options: PageOptions): Promise<Page>;
  extract(
    body: Uint8Array | string,
    options: PageOptions,
    wish: ExtractionRequest,
  ): Promise<Extraction>;
}
