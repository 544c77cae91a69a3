// Decides who may call which operation. A key has scopes and may be limited to kinds, queues and one subject. Every operation
// declares what it touches. A limited key is checked against this declaration before the operation runs. An operation without a
// declaration rejects limited keys.
import { AppError } from './errors.ts';

export const scopes = ['read', 'run', 'worker', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** The authenticated caller. An interface derives it from a key or the private socket, never from the input. */
export interface Caller {
  owner: string;
  scopes: ReadonlySet<Scope>;
  /** May read and change the jobs of all owners, within the key's limits. */
  admin: boolean;
  /** The home's owner on the private socket, or a bridge that acts for the owner. */
  local: boolean;
  keyId?: string;
  /** Set if a dashboard session authenticated the caller. */
  sessionId?: string;
  kinds?: readonly string[];
  queues?: readonly string[];
  /** The wallet or endpoint that the key is bound to (`wallet:…`, `endpoint:…`). */
  subject?: string;
  /** When the key expires, in epoch ms. */
  expiresAt?: number;
}

type Limits = Pick<Caller, 'kinds' | 'queues' | 'subject'>;
type Limit = keyof Limits;

/** True if the key cannot access everything its owner has. */
export const isLimited = ({ kinds, queues, subject }: Limits): boolean =>
  kinds !== undefined || queues !== undefined || subject !== undefined;

/**
 * What an operation touches.
 * `nothing`: public data only, or the call is authenticated by something other than a key.
 * `everything`: resources that no limit describes (the server, all jobs of an owner). Only keys without limits may call it.
 */
export type Reach<I = unknown> = 'nothing' | 'everything' | Touched<I>;

/** For each limit of a key, at least one of these must show that the call stays within the limit. */
interface Touched<I = unknown> {
  /** The jobs it acts on. Each must be within every limit: kind, queue and subject. */
  jobs?(input: I): readonly string[] | Promise<readonly string[]>;
  /** Other jobs that the input names. They must be within the limits, but do not cover the rest of the call. */
  alsoJobs?(input: I): readonly string[];
  /** The kind it touches. Operations of a kind have that kind already. */
  kind?(input: I): string;
  /** The queue whose jobs it submits, assigns or changes. */
  queue?(input: I): string;
  /** The resource it touches, for example an endpoint id. */
  subject?: { type: string; id(input: I): string };
  /** It acts only for the resource of this type that the key is bound to, regardless of the input. */
  actsFor?: string;
  /** Limits that the operation enforces itself by filtering. */
  filters?: readonly Limit[];
}

interface Guarded {
  name: string;
  effect: 'read' | 'write' | 'destroy';
  scope: Scope | 'public';
  // `never` accepts operations with any input type.
  reach?: Reach<never> | undefined;
}

/** Checks jobs for a limited key. */
export interface JobLimits {
  /** Throws `notFound` if the job is outside the key's limits. */
  require(id: string, caller: Caller): Promise<void>;
}

/** The scope that a key needs. For a public operation it is the scope that gives access to private data. */
const neededScope = ({ scope, effect }: Pick<Guarded, 'scope' | 'effect'>): Scope =>
  scope !== 'public' ? scope : effect === 'read' ? 'read' : 'run';

/** The error if no input lets this caller call the operation, otherwise undefined. */
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

/** Throws if the input leaves the limits of the key. Call it after `refusal` returned undefined. */
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

/** The error for a key limit that the operation does not cover with its declaration. */
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

function keyRequired(): AppError {
  return new AppError('unauthorized', 'An API key is required.', {
    hint: 'Send `Authorization: Bearer <key>`. Create a key with `errand key create`.',
  });
}

function missingScope(name: string, scope: Scope): AppError {
  return new AppError(
    'forbidden',
    `${name} requires the scope \`${scope}\`, which this key does not have.`,
    {
      hint: 'Use a key with that scope: `errand key create --scopes …`.',
    },
  );
}

/** The limits of a key as text: `kinds command; queues ci; bound to endpoint:my`. */
function limitsText({ kinds, queues, subject }: Limits): string {
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
  return new AppError('forbidden', `This key may not use jobs of kind ${kind}.`, {
    hint: `It is limited to: ${kinds.join(', ')}.`,
  });
}

function otherQueue(queue: string, { queues = [] }: Caller): AppError {
  return new AppError('forbidden', `This key may not use the queue ${queue.slice(0, 100)}.`, {
    hint: `It is limited to: ${queues.join(', ')}.`,
  });
}

function otherSubject({ subject }: Caller): AppError {
  return new AppError(
    'forbidden',
    `This key is bound to ${subject} and cannot access anything else.`,
    {
      hint: 'Use a key that is bound to the other resource, or an unbound key of the owner.',
    },
  );
}
