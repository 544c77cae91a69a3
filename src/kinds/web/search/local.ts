// The full-text index over all crawled pages, as another engine. The store runs the search.
import { isoTime } from '../../../runtime/clock.ts';
import type { Engine, PageSearch } from './types.ts';

export function localEngine(pages: PageSearch): Engine {
  return {
    name: 'local',
    general: false,
    kinds: ['web'],
    supports: [],
    async search({ query, count, offset = 0 }) {
      const hits = await pages.searchPages(query, { limit: count, offset });
      const rows = hits.map(({ url, title, snippet, fetchedAt }) => ({
        title: title || url,
        url,
        snippet,
        source: 'crawled here',
        ...(fetchedAt === undefined ? {} : { crawledAt: isoTime(fetchedAt) }),
      }));
      return { rows };
    },
  };
}
