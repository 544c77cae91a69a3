// What a key lets its holder do, in words, for the person who makes it.
import type { KeyRow } from './access.ts';

/** What a kind says of scope `run`. */
export interface KindWords {
  name: string;
  /** `run any command as …`; a part of another kind has none. */
  allows?: string;
  /** What keys can be bound to: the word before the colon of their subject. */
  subject?: string;
}

/** One line for each thing, the most powerful first, then what limits it. */
export function allowsLines(row: KeyRow, kinds: readonly KindWords[]): string[] {
  const has = (scope: string) =>
    row.scopes.includes(scope as never) || row.scopes.includes('admin');
  const within = kinds.filter(({ name }) => !row.kinds || row.kinds.includes(name));
  const reached = row.subject === null ? within : within.filter((kind) => isBoundKind(kind, row));
  const whose = row.scopes.includes('admin') ? 'every owner' : `the owner ${row.owner}`;
  return [
    ...(has('run') ? reached.flatMap(({ allows }) => (allows === undefined ? [] : [allows])) : []),
    ...(has('run') ? [`cancel, retry, rerun and delete jobs of ${whose}`] : []),
    ...(has('read') ? [`read jobs of ${whose}, with their input, output and results`] : []),
    ...(has('worker') ? ['take jobs of endpoints and report their results'] : []),
    ...(row.scopes.includes('admin') ? [adminWords(row)] : []),
  ];
}

export function limitsLines(row: KeyRow): string[] {
  return [
    ...(row.kinds ? [`only work of kind ${row.kinds.join(', ')}`] : []),
    ...(row.queues ? [`only jobs of the queues ${row.queues.join(', ')}`] : []),
    ...(row.subject === null ? [] : [`only ${row.subject.replace(':', ' ')}`]),
  ];
}

const adminWords = ({ kinds, queues, subject }: KeyRow): string =>
  kinds || queues || subject !== null
    ? 'make and end keys with at most the same rights'
    : 'do everything else: stop the server, make keys, name programs that endpoints run, mint credit';

function isBoundKind(kind: KindWords, { subject }: KeyRow): boolean {
  return kind.subject !== undefined && subject!.startsWith(`${kind.subject}:`);
}
