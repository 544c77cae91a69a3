// Complete pages: read_pages returns long pages in pieces.
import { readPages } from '../../kinds/web/contracts.ts';
import type { OutputOf } from '../../contract.ts';
import { callUnchecked } from '../../dialect.ts';
import type { Asked } from './route.ts';
import type { Fields } from './translate.ts';

export type PagesOut = OutputOf<typeof readPages>;

/** Maximum size of one read_pages response. */
export const maxBytes = 1_000_000;

export async function whole(
  { call }: Asked,
  id: string,
  { nextOffset, cut, ...page }: Fields,
  fields: readonly string[],
): Promise<Fields> {
  const all: Fields = { ...page };
  for (let offset = nextOffset; offset !== undefined;) {
    const requested = { id, url: page.url, fields, offset, maxBytes: maxBytes };
    const { pages } = await callUnchecked(call, readPages, requested);
    const piece: Fields = pages[0] ?? {};
    for (const name of fields)
      if (typeof all[name] === 'string' && typeof piece[name] === 'string')
        all[name] += piece[name];
    offset = piece.nextOffset;
  }
  // Content other than text that is too large for any response.
  const left = /\b(\w+) is omitted/.exec(typeof cut === 'string' ? cut : '')?.[1];
  return left === undefined ? all : { ...all, detail: `${left}: too large for a response.` };
}
