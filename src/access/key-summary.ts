// Describes in plain words what a key allows, for the person who creates it.
import type { KeyRow } from './keys.ts';

/** How a kind describes its part of a key's rights. */
export interface KindSummary {
  name: string;
  /** What scope `run` allows: `run any command as …`. Undefined for a kind that is part of another one. */
  allows?: string;
  /** The subject prefix that keys can be bound to, e.g. `endpoint`. */
  subject?: string;
}

/** One line per right, the most powerful first. */
export function describeRights(row: KeyRow, kinds: readonly KindSummary[]): string[] {
  const has = (scope: string) =>
    row.scopes.includes(scope as never) || row.scopes.includes('admin');
  const within = kinds.filter(({ name }) => !row.kinds || row.kinds.includes(name));
  const reached = row.subject === null ? within : within.filter((kind) => isBoundKind(kind, row));
  const whose = row.scopes.includes('admin') ? 'every owner' : `the owner ${row.owner}`;
  return [
    ...(has('run') ? reached.flatMap(({ allows }) => (allows === undefined ? [] : [allows])) : []),
    ...(has('run') ? [`cancel, retry, rerun and delete jobs of ${whose}`] : []),
    ...(has('read') ? [`read jobs of ${whose}, including input, output and results`] : []),
    ...(has('worker') ? ['take jobs of endpoints and report their results'] : []),
    ...(row.scopes.includes('admin') ? [describeAdmin(row)] : []),
  ];
}

export function describeLimits(row: KeyRow): string[] {
  return [
    ...(row.kinds ? [`only work of kind ${row.kinds.join(', ')}`] : []),
    ...(row.queues ? [`only jobs in the queues ${row.queues.join(', ')}`] : []),
    ...(row.subject === null ? [] : [`only ${row.subject.replace(':', ' ')}`]),
  ];
}

const describeAdmin = ({ kinds, queues, subject }: KeyRow): string =>
  kinds || queues || subject !== null
    ? 'create and revoke keys with at most the same rights'
    : 'do everything else: stop the server, create keys, set the programs that endpoints run, mint credit';

function isBoundKind(kind: KindSummary, { subject }: KeyRow): boolean {
  return kind.subject !== undefined && subject!.startsWith(`${kind.subject}:`);
}
