// Who may call what. A key has scopes, and may be limited to kinds, queues and one thing (its subject). Every operation
// declares what it touches; a limited key is checked against that declaration before the operation runs. What is not
// declared is refused, so a new operation is closed to limited keys until it says what it touches.
import { AppError } from './errors.ts';

export const scopes = ['read', 'run', 'worker', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** Who calls. Made by an interface from a key or from the private socket, never from the input. */
export interface Caller {
  owner: string;
  scopes: ReadonlySet<Scope>;
  /** Sees and changes the jobs of every owner, within the limits of the key. */
  admin: boolean;
  /** The home's owner over the private socket, or a bridge acting for them. */
  local: boolean;
  keyId?: string;
  kinds?: readonly string[];
  queues?: readonly string[];
  /** What a key is bound to beyond its owner: a wallet, an endpoint (`wallet:…`, `endpoint:…`). */
  subject?: string;
  /** When the key expires, in epoch ms. */
  expiresAt?: number;
}

export type Limits = Pick<Caller, 'kinds' | 'queues' | 'subject'>;
export type Limit = keyof Limits;

/** True for a key that does not reach everything of its owner. */
export const isLimited = ({ kinds, queues, subject }: Limits): boolean =>
  kinds !== undefined || queues !== undefined || subject !== undefined;

/**
 * What an operation touches.
 * `nothing`: public facts only, or the call is proven by something other than a key.
 * `everything`: things that no limit describes (the server, all jobs of an owner): only keys without limits.
 */
export type Reach<I = unknown> = 'nothing' | 'everything' | Touched<I>;

/** For every limit that a key has, one of these must say that the call stays within it. */
export interface Touched<I = unknown> {
  /** The jobs it is about. They have a kind and a queue and may belong to a subject: each must be within every limit. */
  jobs?(input: I): readonly string[] | Promise<readonly string[]>;
  /** Further jobs that the input names. They must be within the limits too, and say nothing about the rest of the call. */
  alsoJobs?(input: I): readonly string[];
  /** The kind of what it touches. Operations of a kind have theirs already. */
  kind?(input: I): string;
  /** The queue whose jobs it submits, hands out or changes. */
  queue?(input: I): string;
  /** The thing it touches: an endpoint by its id. */
  subject?: { type: string; id(input: I): string };
  /** It acts only for the thing of this type that the key is bound to, whatever the input says. */
  actsFor?: string;
  /** It checks these limits itself: it returns and changes only what is within them. */
  filters?: readonly Limit[];
}

export interface Guarded {
  name: string;
  effect: 'read' | 'write' | 'destroy';
  scope: Scope | 'public';
  // Method syntax: operations of every input are checked alike.
  reach?: Reach<never> | undefined;
}

/** Looks jobs up for a limited key. */
export interface JobLimits {
  /** Throws `notFound` unless the job is within the limits of the key. */
  require(id: string, caller: Caller): Promise<void>;
}

/** What a key needs: the scope of the operation; where no key is needed, the scope for what is not public. */
export const neededScope = ({ scope, effect }: Pick<Guarded, 'scope' | 'effect'>): Scope =>
  scope !== 'public' ? scope : effect === 'read' ? 'read' : 'run';

/** Why this caller may never call the operation, whatever the input; undefined when some input is allowed. */
export function refusal(
  operation: Guarded,
  kind: string | undefined,
  caller: Caller | undefined,
): AppError | undefined {
  if (operation.scope === 'public' && operation.reach === 'nothing') return undefined;
  if (!caller) return keyRequired();
  const scope = neededScope(operation);
  if (!caller.scopes.has(scope) && !caller.scopes.has('admin'))
    return missingScope(operation.name, scope);
  if (!isLimited(caller) || operation.reach === 'nothing') return undefined;
  const { reach } = operation;
  if (reach === undefined || reach === 'everything') return beyond(operation.name, caller);
  if (kind !== undefined && caller.kinds && !caller.kinds.includes(kind))
    return otherKind(kind, caller);
  return undeclared(operation.name, reach, kind, caller);
}

/** Refuses the input of a limited key that leaves its limits. To be called after `refusal` found nothing. */
export async function checkReach(
  { name, reach }: Guarded,
  input: unknown,
  caller: Caller,
  jobLimits: JobLimits | undefined,
): Promise<void> {
  if (!isLimited(caller) || reach === undefined || typeof reach === 'string') return;
  const touched = reach as Touched;
  const ids = await touched.jobs?.(input);
  if (ids?.length === 0) throw beyond(name, caller);
  for (const id of [...(ids ?? []), ...(touched.alsoJobs?.(input) ?? [])]) {
    if (!jobLimits) throw beyond(name, caller);
    await jobLimits.require(id, caller);
  }
  const kind = touched.kind?.(input);
  if (kind !== undefined && caller.kinds && !caller.kinds.includes(kind))
    throw otherKind(kind, caller);
  const queue = touched.queue?.(input);
  if (queue !== undefined && caller.queues && !caller.queues.includes(queue))
    throw otherQueue(queue, caller);
  const { subject } = touched;
  if (
    subject &&
    caller.subject !== undefined &&
    caller.subject !== `${subject.type}:${subject.id(input)}`
  )
    throw otherSubject(caller);
}

/** A limit of the key about which the operation says nothing. */
function undeclared(
  name: string,
  reach: Touched<never>,
  kind: string | undefined,
  caller: Caller,
): AppError | undefined {
  const says = (limit: Limit, ...declared: unknown[]): boolean =>
    caller[limit] === undefined ||
    declared.some((one) => one !== undefined) ||
    reach.jobs !== undefined ||
    reach.filters?.includes(limit) === true;
  if (!says('kinds', kind, reach.kind) || !says('queues', reach.queue)) return beyond(name, caller);
  const type = reach.subject?.type ?? reach.actsFor;
  const isOfType = type !== undefined && caller.subject?.startsWith(`${type}:`) === true;
  if (type !== undefined && caller.subject !== undefined && !isOfType) return beyond(name, caller);
  return says('subject', type) ? undefined : beyond(name, caller);
}

export function keyRequired(): AppError {
  return new AppError('unauthorized', 'This needs a key.', {
    hint: 'Send `Authorization: Bearer <key>`; `errand key create` makes one.',
  });
}

function missingScope(name: string, scope: Scope): AppError {
  return new AppError('forbidden', `The key has no scope \`${scope}\`, which ${name} needs.`, {
    hint: 'Ask for a key with that scope: `errand key create --scopes …`.',
  });
}

/** In words what a key is limited to: `kinds command; queues ci; bound to endpoint:my`. */
export function limitsText({ kinds, queues, subject }: Limits): string {
  return [
    ...(kinds ? [`kinds ${kinds.join(', ')}`] : []),
    ...(queues ? [`queues ${queues.join(', ')}`] : []),
    ...(subject === undefined ? [] : [`bound to ${subject}`]),
  ].join('; ');
}

function beyond(name: string, caller: Caller): AppError {
  return new AppError('forbidden', `${name} is outside the limits of this key.`, {
    hint: `The key is limited (${limitsText(caller)}). Use a key without these limits.`,
  });
}

function otherKind(kind: string, { kinds = [] }: Caller): AppError {
  return new AppError('forbidden', `The key may not do work of kind ${kind}.`, {
    hint: `It is limited to: ${kinds.join(', ')}.`,
  });
}

function otherQueue(queue: string, { queues = [] }: Caller): AppError {
  return new AppError('forbidden', `The key may not use the queue ${queue.slice(0, 100)}.`, {
    hint: `It is limited to: ${queues.join(', ')}.`,
  });
}

function otherSubject({ subject }: Caller): AppError {
  return new AppError('forbidden', `This key is bound to ${subject} and may use nothing else.`, {
    hint: 'Use a key that is bound to the other one, or a key of the owner that is not bound.',
  });
}
