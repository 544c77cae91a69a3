// The URLs of a crawl as a tree of hosts and paths.
import type { Page } from './types.ts';

export interface Folder {
  /** Host and path, unique in the tree. */
  key: string;
  label: string;
  folders: Map<string, Folder>;
  pages: Page[];
  /** Outcome → number of URLs below. */
  counts: Map<string, number>;
}

const newFolder = (key: string, label: string): Folder => ({
  key,
  label,
  folders: new Map(),
  pages: [],
  counts: new Map(),
});

export function treeOf(pages: readonly Page[]): Folder {
  const root = newFolder('', '');
  for (const page of pages) {
    const { host, parts } = placeOf(page.url);
    let folder = root;
    count(folder, page);
    for (const part of [host, ...parts]) {
      folder = childOf(folder, part);
      count(folder, page);
    }
    folder.pages.push(page);
  }
  return root;
}

/** The last part of a path is the page itself. */
function placeOf(url: string): { host: string; parts: string[] } {
  const parsed = URL.parse(url);
  if (!parsed) return { host: url, parts: [] };
  return { host: parsed.origin, parts: parsed.pathname.split('/').slice(1, -1) };
}

function childOf(parent: Folder, part: string): Folder {
  const known = parent.folders.get(part);
  if (known) return known;
  const isHost = parent.key === '';
  const key = isHost ? part : `${parent.key}/${part}`;
  const child = newFolder(key, isHost ? part : `${part}/`);
  parent.folders.set(part, child);
  return child;
}

function count({ counts }: Folder, { outcome }: Page): void {
  counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
}

/** The name of a page within its folder. */
export function nameIn(url: string): string {
  const parsed = URL.parse(url);
  if (!parsed) return url;
  return `${parsed.pathname.split('/').at(-1) || '/'}${parsed.search}`;
}

export const totalOf = ({ counts }: Folder): number =>
  [...counts.values()].reduce((sum, n) => sum + n, 0);
