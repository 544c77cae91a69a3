// What a key may give to other keys: never more than it has. Every key is granted by somebody: by the server itself
// (keys of its own workers), or by a caller, whose own limits bound the new key.
import { AppError } from '../errors.ts';
import { isLimited, type Caller, type Scope } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';

export type Grantor = Caller | 'server';

/** What a key allows. */
export interface Grant {
  owner: string;
  scopes: readonly Scope[];
  kinds?: readonly string[] | null | undefined;
  queues?: readonly string[] | null | undefined;
  subject?: string | null | undefined;
  expiresAt?: number | null | undefined;
}

/** Throws unless the grantor has everything that the key would have, for at least as long. */
export function refuseBeyond(grant: Grant, grantor: Grantor): void {
  if (grantor === 'server') return;
  const why = excess(grant, grantor) ?? lateEnd(grant, grantor);
  if (why === undefined) return;
  throw new AppError('forbidden', `A key cannot give more than it has: ${why}.`, {
    hint: 'Ask for less, or use a key that has it.',
  });
}

/** Whether a caller may see and end this key: it allows nothing that the caller's own key does not. */
export const covers = (caller: Caller, grant: Grant): boolean =>
  excess(grant, caller) === undefined;

/** The scopes of these that the caller has. */
export const shared = (caller: Caller, wanted: readonly Scope[]): Scope[] =>
  caller.scopes.has('admin') ? [...wanted] : wanted.filter((scope) => caller.scopes.has(scope));

function excess(grant: Grant, caller: Caller): string | undefined {
  const missing = grant.scopes.filter((scope) => !shared(caller, [scope]).includes(scope));
  if (missing.length > 0) return `this one has no scope ${missing.join(', ')}`;
  const isOperator = caller.admin && !isLimited(caller);
  if (!isOperator && grant.owner !== caller.owner)
    return `this one is of ${caller.owner}, and cannot act for other owners`;
  if (!isPart(grant.kinds, caller.kinds))
    return `this one is limited to kinds ${list(caller.kinds)}`;
  if (!isPart(grant.queues, caller.queues))
    return `this one is limited to queues ${list(caller.queues)}`;
  if (caller.subject !== undefined && grant.subject !== caller.subject)
    return `this one is bound to ${caller.subject}`;
  return undefined;
}

function lateEnd({ expiresAt }: Grant, caller: Caller): string | undefined {
  const end = caller.expiresAt;
  if (end === undefined || (typeof expiresAt === 'number' && expiresAt <= end)) return undefined;
  return `this one expires at ${isoTime(end)}`;
}

const list = (names: readonly string[] | undefined): string => (names ?? []).join(', ');

function isPart(
  asked: readonly string[] | null | undefined,
  held: readonly string[] | undefined,
): boolean {
  return held === undefined || (asked?.every((name) => held.includes(name)) ?? false);
}
