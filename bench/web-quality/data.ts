// Reads the labelled pages (WCXB, CC-BY-4.0) straight from their tar archive. Nothing of them is
// kept in the repository.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

export interface Sample {
  id: string;
  url: string;
  /**
   * Registrable part of the host: pages of one site never stand on both sides of a
   * cross-validation.
   */
  site: string;
  type: string;
  html: string;
  truth: string;
  must: string[];
  mustNot: string[];
}

export const types = [
  'article',
  'documentation',
  'service',
  'forum',
  'collection',
  'listing',
  'product',
] as const;

/**
 * How common each type is among the 1,497 development pages of the benchmark, as its author states;
 * listing and documentation share what is left. The 420 pages here have 60 of each.
 */
export const shares: Record<(typeof types)[number], number> = {
  article: 793 / 1497,
  documentation: 95 / 1497,
  service: 165 / 1497,
  forum: 113 / 1497,
  collection: 117 / 1497,
  listing: 95 / 1497,
  product: 119 / 1497,
};

export function dataPath(): string {
  const fallback = join(import.meta.dirname, '../../../shared/data/wcxb-dev-420.tar');
  return process.env.ERRAND_BENCH_DATA ?? fallback;
}

/** Undefined when the archive is not there: the caller says MISSING. */
export function loadSamples(path = dataPath()): Sample[] | undefined {
  if (!existsSync(path)) return undefined;
  const files = untar(readFileSync(path));
  const samples: Sample[] = [];
  for (const [name, bytes] of files) {
    const id = /html\/([^/]+)\.html\.gz$/.exec(name)?.[1];
    if (id === undefined) continue;
    const truth = files.get(name.replace(/html\/[^/]+$/, `ground-truth/${id}.json`));
    if (truth) samples.push(sample(id, gunzipSync(bytes).toString('utf8'), truth.toString('utf8')));
  }
  return samples.toSorted((a, b) => a.id.localeCompare(b.id));
}

interface TruthFile {
  url?: string;
  ground_truth?: { main_content?: string; with?: string[]; without?: string[] };
  _internal?: { page_type?: { primary?: string } | string };
}

function sample(id: string, html: string, json: string): Sample {
  const file = JSON.parse(json) as TruthFile;
  const typed = file._internal?.page_type;
  const type = (typeof typed === 'string' ? typed : typed?.primary) ?? 'article';
  const url = file.url ?? '';
  const host = URL.canParse(url) ? new URL(url).hostname : id;
  return {
    id,
    url,
    site: host.split('.').slice(-2).join('.'),
    type: type === 'category' ? 'collection' : type,
    html,
    truth: file.ground_truth?.main_content ?? '',
    must: file.ground_truth?.with ?? [],
    mustNot: file.ground_truth?.without ?? [],
  };
}

function untar(tar: Buffer): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0;) {
    const name = tar.toString('utf8', at, at + 100).replace(/\0.*$/s, '');
    const size = Number.parseInt(tar.toString('utf8', at + 124, at + 136), 8);
    files.set(name, tar.subarray(at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}
