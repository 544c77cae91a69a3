// What became of a page since the earlier crawl: new, same, changed (with a diff), removed.
import type { PageStore } from '../pages/store.ts';
import type { WebStore } from '../store.ts';
import { diffLines } from './diff.ts';
import type { Result } from './result.ts';
import { pageFates, type UrlChange } from './rows.ts';

export interface ComparisonNeeds {
  store: WebStore;
  pages: PageStore;
  /** Earlier crawl to compare with. */
  earlier: number | undefined;
}

export class Comparison {
  private readonly needs: ComparisonNeeds;

  constructor(needs: ComparisonNeeds) {
    this.needs = needs;
  }

  async page(result: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store, pages } = this.needs;
    const { change } = result;
    if (earlier === undefined) return change;
    if (change.fate === 'unchanged') return { ...change, change: 'same' };
    const before = await store.byKey(earlier, result.row.key);
    if (!before || !pageFates.has(before.fate)) return { ...change, change: 'new' };
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

  /** Gone only if the site says so. */
  async failure({ change, row }: Result): Promise<Omit<UrlChange, 'seq'>> {
    const { earlier, store } = this.needs;
    if (earlier === undefined || (change.status !== 404 && change.status !== 410)) return change;
    const before = await store.byKey(earlier, row.key);
    return before && pageFates.has(before.fate) ? { ...change, change: 'removed' } : change;
  }
}
