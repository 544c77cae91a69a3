// Limits pages per path prefix (`pathBudgets`) and per path pattern (`maxSimilarPages`), exactly even with concurrent
// requests.
import type { CrawlOptions } from '../options.ts';
import { pathPattern } from '../../url.ts';

export class PathBudgets {
  private readonly options: Pick<CrawlOptions, 'pathBudgets' | 'maxSimilarPages'>;
  private readonly counts: () => Record<string, number>;

  constructor(
    options: Pick<CrawlOptions, 'pathBudgets' | 'maxSimilarPages'>,
    counts: () => Record<string, number>,
  ) {
    this.options = options;
    this.counts = counts;
  }

  /** The counters of a page in addition to its outcome. */
  names(address: string): string[] {
    const { pathBudgets, maxSimilarPages } = this.options;
    if (!pathBudgets && maxSimilarPages === undefined) return [];
    const url = new URL(address);
    const names = Object.keys(pathBudgets ?? {})
      .filter((prefix) => url.pathname.startsWith(prefix))
      .map((prefix) => `path:${prefix}`);
    return maxSimilarPages === undefined ? names : [...names, `like:${pathPattern(url)}`];
  }

  full(names: readonly string[]): { outcome: 'skipped'; reason: string } | undefined {
    const name = names.find((one) => this.used(one) >= this.limit(one));
    if (name === undefined) return undefined;
    return { outcome: 'skipped', reason: name.startsWith('path:') ? 'pathBudget' : 'similarPages' };
  }

  /** False while running requests may use up the rest of a budget. */
  mayStart(address: string, underWay: Iterable<readonly string[]>): boolean {
    const names = this.names(address);
    if (names.length === 0 || this.full(names)) return true;
    const others = [...underWay].flat();
    return names.every(
      (name) =>
        this.used(name) + others.filter((other) => other === name).length < this.limit(name),
    );
  }

  private used(name: string): number {
    return this.counts()[name] ?? 0;
  }

  private limit(name: string): number {
    if (name.startsWith('like:')) return this.options.maxSimilarPages!;
    return this.options.pathBudgets![name.slice('path:'.length)]!;
  }
}
