// Reads the labelled pages (WCXB, CC-BY-4.0) directly from their tar archive. The repository
// contains none of them.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

export interface Sample {
  id: string;
  url: string;
  /**
   * The registrable part of the host. Pages of one site are never on both sides of a
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

/** Together the complete development split: 420 pages, 60 of each type, and the other 1,077. */
const archives = ['wcxb-dev-420.tar', 'wcxb-dev-1077.tar'];

/** `ERRAND_BENCH_DATA`: the folder of the archives. */
export function dataPaths(): string[] {
  const fallback = join(import.meta.dirname, '../../../shared/data');
  const folder = process.env.ERRAND_BENCH_DATA ?? fallback;
  return archives.map((name) => join(folder, name));
}

/** Returns undefined when an archive is missing. */
export function loadSamples(paths = dataPaths()): Sample[] | undefined {
  if (!paths.every((path) => existsSync(path))) return undefined;
  const files = new Map(paths.flatMap((path) => [...untar(readFileSync(path))]));
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
