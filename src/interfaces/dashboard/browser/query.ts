// The filter as text (`status:failed,running tag:ci since:24h npm`): parsed, written, sent to list_jobs, and compared with
// jobs that arrive on the event stream.
import { now } from './now.ts';
import type { JobLine, Status } from './types.ts';

export interface Filter {
  status: string[];
  kind: string[];
  tag: string[];
  queue?: string;
  name?: string;
  parent?: string;
  since?: string;
  before?: string;
  text?: string;
}

export const filterKeys = ['status', 'kind', 'queue', 'name', 'tag', 'since', 'before', 'parent'];
const listKeys = new Set(['status', 'kind', 'tag']);

const token = /(\w+):(?:"((?:[^"\\]|\\.)*)"|(\S*))|"((?:[^"\\]|\\.)*)"|(\S+)/g;

export function parseFilter(query: string): Filter {
  const filter: Filter = { status: [], kind: [], tag: [] };
  const words: string[] = [];
  for (const [whole, key, quoted, bare, phrase, word] of query.matchAll(token)) {
    const value = quoted === undefined ? bare : unescape(quoted);
    if (key === undefined || !filterKeys.includes(key)) {
      words.push(phrase === undefined ? (word ?? whole) : unescape(phrase));
      continue;
    }
    if (value === undefined || value === '') continue;
    if (!listKeys.has(key)) Object.assign(filter, { [key]: value });
    else
      filter[key as 'status' | 'kind' | 'tag'].push(
        ...value.split(',').filter((part) => part !== ''),
      );
  }
  return words.length === 0 ? filter : { ...filter, text: words.join(' ') };
}

const unescape = (text: string): string => text.replaceAll(/\\(.)/g, '$1');

export function quoteValue(value: string): string {
  return /^[^\s"\\:,]+$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

export const isEmpty = (filter: Filter): boolean => Object.keys(inputOf(filter)).length === 0;

const units: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** `24h`, or a local date and time. */
function timeOf(text: string, nowMs: number): number | undefined {
  const relative = /^(\d+)([smhdw])$/.exec(text);
  if (relative) return nowMs - Number(relative[1]) * units[relative[2]!]!;
  const at = Date.parse(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00` : text);
  return Number.isNaN(at) ? undefined : at;
}

const isoOf = (text: string): string => {
  const at = timeOf(text, now.value);
  // An invalid time goes to the server unchanged: its error explains what is accepted.
  return at === undefined ? text : new Date(at).toISOString();
};

/** The input fields of list_jobs and of the operations that take the same filter. */
export function inputOf(filter: Filter): Record<string, unknown> {
  const { status, kind, tag, queue, name, parent, since, before, text } = filter;
  return {
    ...(status.length > 0 ? { status } : {}),
    ...(kind.length > 0 ? { kind } : {}),
    ...(tag.length > 0 ? { tag } : {}),
    ...(queue === undefined ? {} : { queue }),
    ...(name === undefined ? {} : { name }),
    ...(parent === undefined ? {} : { parent }),
    ...(since === undefined ? {} : { since: isoOf(since) }),
    ...(before === undefined ? {} : { before: isoOf(before) }),
    ...(text === undefined ? {} : { text }),
  };
}

/** Whether a job of the event stream belongs to the list. `undefined`: only the server knows (text in the input, parent). */
export function matches(filter: Filter, job: JobLine, nowMs: number): boolean | undefined {
  const created = Date.parse(job.createdAt);
  const since = filter.since === undefined ? undefined : timeOf(filter.since, nowMs);
  const before = filter.before === undefined ? undefined : timeOf(filter.before, nowMs);
  const isOther =
    (filter.status.length > 0 && !filter.status.includes(job.status satisfies Status)) ||
    (filter.kind.length > 0 && !filter.kind.includes(job.kind)) ||
    (filter.queue !== undefined && filter.queue !== (job.queue ?? 'default')) ||
    (filter.name !== undefined && filter.name !== job.name) ||
    !filter.tag.every((tag) => job.tags?.includes(tag)) ||
    (since !== undefined && created < since) ||
    (before !== undefined && created >= before);
  if (isOther) return false;
  if (filter.parent !== undefined) return undefined;
  if (filter.text === undefined) return true;
  const shown = `${job.name ?? ''}\n${job.summary ?? ''}\n${job.error ?? ''}`.toLowerCase();
  return shown.includes(filter.text.toLowerCase()) ? true : undefined;
}
