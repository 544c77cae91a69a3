// Pages as they are, however long: read_pages hands out a long one in pieces.
import type { Asked } from './index.ts';
import type { Fields } from './translate.ts';

/** Of one answer of read_pages; the most it gives. */
export const bytesMax = 1_000_000;

export async function whole(
  { call }: Asked,
  id: string,
  { nextOffset, cut, ...page }: Fields,
  fields: readonly string[],
): Promise<Fields> {
  const all: Fields = { ...page };
  for (let offset = nextOffset; offset !== undefined;) {
    const wish = { id, url: page.url, fields, offset, maxBytes: bytesMax };
    const { pages } = await call.operations.call<{ pages: Fields[] }>(
      'read_pages',
      wish,
      call.context,
    );
    const piece = pages[0] ?? {};
    for (const name of fields)
      if (typeof all[name] === 'string' && typeof piece[name] === 'string')
        all[name] += piece[name];
    offset = piece.nextOffset;
  }
  // What is no text and too large even for a whole answer.
  const left = /\b(\w+) is left out/.exec(typeof cut === 'string' ? cut : '')?.[1];
  return left === undefined ? all : { ...all, detail: `${left}: too large to be answered.` };
}
