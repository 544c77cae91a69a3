// The rows from `offset` on, of engines that answer in pages of their own.
import { sameUrl } from './same-url.ts';
import type { Found, FoundRow, SearchRequest } from './types.ts';

interface Pages {
  /** Rows of a page, where that is known: fewer are the last. */
  size?: number;
  pagesMax: number;
  /** Pages are numbered from 0. */
  ask(page: number): Promise<FoundRow[]>;
}

/** A further page that fails takes nothing from those before it. */
export async function rowsFrom(
  { offset = 0, count }: Pick<SearchRequest, 'offset' | 'count'>,
  { size, pagesMax, ask }: Pages,
): Promise<Found> {
  const first = size === undefined ? 0 : Math.floor(offset / size);
  const skipped = offset - first * (size ?? 0);
  const rows = new Map<string, FoundRow>();
  const warnings: string[] = [];
  for (let page = first; page < first + pagesMax && rows.size < skipped + count; page++) {
    const known = rows.size;
    const found = await asked(ask, page, page > first ? warnings : undefined);
    for (const row of found) if (!rows.has(sameUrl(row.url))) rows.set(sameUrl(row.url), row);
    if (rows.size === known || found.length < (size ?? 0)) break;
  }
  return { rows: [...rows.values()].slice(skipped, skipped + count), warnings };
}

async function asked(
  ask: Pages['ask'],
  page: number,
  warnings: string[] | undefined,
): Promise<FoundRow[]> {
  try {
    return await ask(page);
  } catch (error) {
    if (!warnings) throw error;
    warnings.push(`its page ${page + 1}: ${(error as Error).message}`);
    return [];
  }
}
