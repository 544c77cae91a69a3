// What the kind needs of page reading: bytes in, page or filled schema out; and of schemas: whether something fits.
// Threads do the work.
import type { Page, PageOptions } from '../content/types.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';
import type { SchemaCheck } from '../extract/schema.ts';

export interface Reader {
  read(body: Uint8Array | string, options: PageOptions): Promise<Page>;
  extract(
    body: Uint8Array | string,
    options: PageOptions,
    wish: ExtractionRequest,
  ): Promise<Extraction>;
  /** An error for what is no schema, or one that costs too much. */
  check(schema: unknown, value?: unknown): Promise<SchemaCheck>;
}
