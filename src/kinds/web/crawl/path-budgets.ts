// Pages per path prefix and per path pattern: counted with the crawl, exact also with several requests under way.
import type { CrawlOptions } from './options.ts';
import { pathPattern } from './url.ts';

export class PathBudgets {
  private readonly options: Pick<CrawlOptions, 'pathBudgets' | 'similarPagesMax'>;
  private readonly counts: () => Record<string, number>;

  constructor(
    options: Pick<CrawlOptions, 'pathBudgets' | 'similarPagesMax'>,
    counts: () => Record<string, number>,
  ) {
    this.options = options;
    this.counts = counts;
  }

  /** Counts a page belongs to beyond its fate. */
  names(address: string): string[] {
    const { pathBudgets, similarPagesMax } = this.options;
    if (!pathBudgets && similarPagesMax === undefined) return [];
    const url = new URL(address);
    const names = Object.keys(pathBudgets ?? {})
      .filter((prefix) => url.pathname.startsWith(prefix))
      .map((prefix) => `path:${prefix}`);
    return similarPagesMax === undefined ? names : [...names, `like:${pathPattern(url)}`];
  }

  full(names: readonly string[]): { fate: 'skipped'; reason: string } | undefined {
    const name = names.find((one) => this.used(one) >= this.limit(one));
    if (name === undefined) return undefined;
    return { fate: 'skipped', reason: name.startsWith('path:') ? 'pathBudget' : 'similarPages' };
  }

  /** Not yet, while pages under way may use up the rest of a budget. */
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
    if (name.startsWith('like:')) return this.options.similarPagesMax!;
    return this.options.pathBudgets![name.slice('path:'.length)]!;
  }
}
