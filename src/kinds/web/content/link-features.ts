// Numbers about where links lead: filters and pages of a list lead to the same path, its entries
// deeper, menus across the site, sponsors and networks away from it.
import { above, type Block, type Place } from './blocks.ts';

export const linkNames: readonly string[] = [
  'linkKind',
  'linkDepth',
  ...['up2', 'up5'].flatMap((level) => [`${level}Here`, `${level}Below`, `${level}Away`]),
];

/** Kinds in an order a threshold can use: from nowhere to far away. */
const Kind = { none: 0, here: 1, below: 2, beside: 3, across: 4, away: 5 } as const;

export interface Links {
  kind: Uint8Array;
  depth: Float32Array;
  /** Blocks with links of a kind before each block. */
  here: Uint32Array;
  below: Uint32Array;
  away: Uint32Array;
  any: Uint32Array;
}

export function readLinks(blocks: readonly Block[], address: string): Links {
  const page = URL.canParse(address) ? new URL(address) : new URL('http://nowhere.invalid/');
  const count = blocks.length;
  const links: Links = {
    kind: new Uint8Array(count),
    depth: new Float32Array(count).fill(-1),
    here: new Uint32Array(count + 1),
    below: new Uint32Array(count + 1),
    away: new Uint32Array(count + 1),
    any: new Uint32Array(count + 1),
  };
  const path = segmentsOf(page.pathname);
  for (const { index, href } of blocks) {
    let kind: number = Kind.none;
    if (href !== undefined) {
      const target = URL.canParse(href, page.href) ? new URL(href, page.href) : undefined;
      kind = target ? kindOf(target, page, path) : Kind.here;
      if (target) links.depth[index] = segmentsOf(target.pathname).length - path.length;
    }
    links.kind[index] = kind;
    links.here[index + 1] = links.here[index]! + (kind === Kind.here ? 1 : 0);
    links.below[index + 1] = links.below[index]! + (kind === Kind.below ? 1 : 0);
    links.away[index + 1] = links.away[index]! + (kind === Kind.away ? 1 : 0);
    links.any[index + 1] = links.any[index]! + (kind === Kind.none ? 0 : 1);
  }
  return links;
}

function kindOf(target: URL, page: URL, path: readonly string[]): number {
  if (!target.protocol.startsWith('http')) return Kind.here;
  if (siteOf(target.hostname) !== siteOf(page.hostname)) return Kind.away;
  if (target.pathname === page.pathname) return Kind.here;
  const other = segmentsOf(target.pathname);
  let same = 0;
  while (same < path.length && path[same] === other[same]) same++;
  if (same === path.length) return Kind.below;
  return same > 0 ? Kind.beside : Kind.across;
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter(Boolean);
}

function siteOf(host: string): string {
  return host.split('.').slice(-2).join('.');
}

export function linkNumbers(links: Links, { index, place }: Block): number[] {
  return [
    links.kind[index]!,
    Math.max(-5, Math.min(5, links.depth[index]!)),
    ...shares(links, above(place, 2)),
    ...shares(links, above(place, 5)),
  ];
}

function shares({ here, below, away, any }: Links, { firstBlock, lastBlock }: Place): number[] {
  const within = (counts: Uint32Array) => counts[lastBlock + 1]! - counts[firstBlock]!;
  const all = Math.max(within(any), 1);
  return [within(here) / all, within(below) / all, within(away) / all];
}
