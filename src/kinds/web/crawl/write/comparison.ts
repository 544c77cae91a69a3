// Compares pages with an earlier crawl: new, same, changed (with a diff) or removed.
import type { PageStore } from '../../store/pages.ts';
import type { WebStore } from '../../store/crawls.ts';
import { diffLines } from './diff.ts';
import type { Result } from '../visit/result.ts';
import { pageOutcomes, type UrlChange } from '../../store/rows.ts';

interface ComparisonDeps {
  store: WebStore;
  pages: PageStore;
  /** Earlier crawl to compare with. */
  earlier: number | undefined;
}

export class Comparison {
  private readonly deps: ComparisonDeps;

  constructor(deps: ComparisonDeps) {
    this.deps = deps;
  }

  async page(result: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store, pages } = this.deps;
    const { change } = result;
    if (earlier === undefined) return change;
    if (change.outcome === 'unchanged') return { ...change, change: 'same' };
    const before = await store.byKey(earlier, result.row.key);
    if (!before || !pageOutcomes.has(before.outcome)) return { ...change, change: 'new' };
    if (before.textHash === change.textHash) return { ...change, change: 'same' };
    const stored = (await pages.bodies(earlier, [before.seq], ['markdown', 'text'])).get(
      before.seq,
    );
    const text = (stored?.markdown ?? stored?.text) as string | undefined;
    if (text !== undefined && result.compared !== undefined && result.body) {
      const { text: diff, added, removed } = diffLines(text, result.compared);
      result.body.diff = diff ?? `rewritten: ${removed} lines became ${added}`;
    }
    return { ...change, change: 'changed' };
  }

  /** A failed page counts as removed only on status 404 or 410. */
  async failure({ change, row }: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store } = this.deps;
    if (earlier === undefined || (change.status !== 404 && change.status !== 410)) return change;
    const before = await store.byKey(earlier, row.key);
    return before && pageOutcomes.has(before.outcome) ? { ...change, change: 'removed' } : change;
  }
}
