// Ensures that a key never grants more than it has. Every key has a grantor: the server itself (keys of its own workers),
// or a caller whose own limits bound the new key.
import { AppError } from '../errors.ts';
import { isLimited, type Caller, type Scope } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';

export type Grantor = Caller | 'server';

/** The rights of a key. */
export interface Grant {
  owner: string;
  scopes: readonly Scope[];
  kinds?: readonly string[] | null | undefined;
  queues?: readonly string[] | null | undefined;
  subject?: string | null | undefined;
  expiresAt?: number | null | undefined;
}

/** Throws unless the grantor has every right of the new key, for at least as long. */
export function rejectExcess(grant: Grant, grantor: Grantor): void {
  if (grantor === 'server') return;
  const why = findExcess(grant, grantor) ?? findLateExpiry(grant, grantor);
  if (why === undefined) return;
  throw new AppError('forbidden', `A key cannot grant more than it has: ${why}.`, {
    hint: 'Request fewer rights, or use a key that has them.',
  });
}

/** Whether a caller may see and revoke this key: it has no right that the caller's own key lacks. */
export const covers = (caller: Caller, grant: Grant): boolean =>
  findExcess(grant, caller) === undefined;

/** The given scopes that the caller has. */
export const heldScopes = (caller: Caller, wanted: readonly Scope[]): Scope[] =>
  caller.scopes.has('admin') ? [...wanted] : wanted.filter((scope) => caller.scopes.has(scope));

function findExcess(grant: Grant, caller: Caller): string | undefined {
  const missing = grant.scopes.filter((scope) => !heldScopes(caller, [scope]).includes(scope));
  if (missing.length > 0) return `this key lacks the scope ${missing.join(', ')}`;
  const isOperator = caller.admin && !isLimited(caller);
  if (!isOperator && grant.owner !== caller.owner)
    return `this key belongs to ${caller.owner} and cannot act for other owners`;
  if (!isSubset(grant.kinds, caller.kinds))
    return `this key is limited to the kinds ${list(caller.kinds)}`;
  if (!isSubset(grant.queues, caller.queues))
    return `this key is limited to the queues ${list(caller.queues)}`;
  if (caller.subject !== undefined && grant.subject !== caller.subject)
    return `this key is bound to ${caller.subject}`;
  return undefined;
}

function findLateExpiry({ expiresAt }: Grant, caller: Caller): string | undefined {
  const end = caller.expiresAt;
  if (end === undefined || (typeof expiresAt === 'number' && expiresAt <= end)) return undefined;
  return `this key expires at ${isoTime(end)}`;
}

const list = (names: readonly string[] | undefined): string => (names ?? []).join(', ');

function isSubset(
  requested: readonly string[] | null | undefined,
  held: readonly string[] | undefined,
): boolean {
  return held === undefined || (requested?.every((name) => held.includes(name)) ?? false);
}
