// The interface for reading pages, extracting data and checking schemas. Worker threads implement it.
import type { Page, PageOptions } from './types.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';
import type { SchemaCheck } from '../extract/schema.ts';

export interface Reader {
  read(body: Uint8Array | string, options: PageOptions): Promise<Page>;
  extract(
    body: Uint8Array | string,
    options: PageOptions,
    request: ExtractionRequest,
  ): Promise<Extraction>;
  /** Rejects an invalid or too expensive schema. */
  check(schema: unknown, value?: unknown): Promise<SchemaCheck>;
}
