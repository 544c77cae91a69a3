// Collects the rows from `offset` on from engines that return pages.
import { sameUrl } from './same-url.ts';
import type { EngineResult, EngineRow, SearchRequest } from './types.ts';

interface Pages {
  /** Rows per page, if known. A page with fewer rows is the last one. */
  size?: number;
  maxPages: number;
  /** Page numbers start at 0. */
  loadPage(page: number): Promise<EngineRow[]>;
}

/** If a later page fails, the rows of the earlier pages are still returned. */
export async function collectRows(
  { offset = 0, count }: Pick<SearchRequest, 'offset' | 'count'>,
  { size, maxPages, loadPage }: Pages,
): Promise<EngineResult> {
  const first = size === undefined ? 0 : Math.floor(offset / size);
  const skipped = offset - first * (size ?? 0);
  const rows = new Map<string, EngineRow>();
  const warnings: string[] = [];
  for (let page = first; page < first + maxPages && rows.size < skipped + count; page++) {
    const known = rows.size;
    const found = await fetchPage(loadPage, page, page > first ? warnings : undefined);
    for (const row of found) if (!rows.has(sameUrl(row.url))) rows.set(sameUrl(row.url), row);
    if (rows.size === known || found.length < (size ?? 0)) break;
  }
  return { rows: [...rows.values()].slice(skipped, skipped + count), warnings };
}

async function fetchPage(
  loadPage: Pages['loadPage'],
  page: number,
  warnings: string[] | undefined,
): Promise<EngineRow[]> {
  try {
    return await loadPage(page);
  } catch (error) {
    if (!warnings) throw error;
    warnings.push(`its page ${page + 1}: ${(error as Error).message}`);
    return [];
  }
}
