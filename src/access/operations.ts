// Operations on API keys. All require the admin scope, and none exceeds the limits of the calling key.
import { AppError } from '../errors.ts';
import { createKey, listKeys, revokeKey, rotateKey } from '../contracts/keys.ts';
import { defineOperation, type Caller, type Operation, type OutputOf } from '../operation.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import { unknownKey, type Access, type KeyRow } from './keys.ts';
import { describeRights, describeLimits, type KindSummary } from './key-summary.ts';
import { covers } from './grants.ts';

type CreatedKey = OutputOf<typeof createKey>;

/** Key limits are enforced by `covers` and `Access.plan`. */
const withinLimits = { filters: ['kinds', 'queues', 'subject'] } as const;

export function accessOperations(access: Access, jobs: KnownJobs, clock: Clock): Operation[] {
  return [
    createKeyOperation(access, jobs, clock),
    listKeysOperation(access, jobs),
    revokeKeyOperation(access),
    rotateKeyOperation(access, jobs),
  ];
}

/** The installed kinds. `kind` throws for an unknown name. */
interface KnownJobs {
  kind(name: string): unknown;
  listKinds(): KindSummary[];
}

function createKeyOperation(access: Access, jobs: KnownJobs, clock: Clock): Operation {
  return defineOperation({
    ...createKey,
    title: 'Create key',
    description:
      "Creates an API key for an owner with scopes (read, run, worker, admin), optionally limited to kinds, queues, one endpoint or wallet, and a lifetime. Anyone who has a key with scope run and no limits can run commands as the server's user. The key is shown once. Use it to give another person, agent or worker access over HTTP; local use needs no key. revoke_key revokes it.",
    effect: 'write',
    scope: 'admin',
    reach: withinLimits,
    http: { method: 'POST', path: '/api/keys' },
    cli: {
      words: ['key', 'create'],
      args: ['name'],
      text: (created) => keyText(created as CreatedKey),
    },
    run: async ({ expiresInMs, ...request }, { caller }) => {
      const { name, kinds, queues, subject } = request;
      for (const kind of kinds ?? []) jobs.kind(kind);
      if (subject !== undefined) rejectUnknownSubject(subject, jobs);
      const grant = { owner: request.owner, scopes: request.scopes, kinds, queues, subject };
      const expiresAt = expiresInMs === undefined ? undefined : clock.now() + expiresInMs;
      return toCreatedView(await access.create({ ...grant, name, expiresAt }, caller!), jobs);
    },
  });
}

/** A misspelled subject would bind the key to nothing and allow more than intended. */
function rejectUnknownSubject(subject: string, jobs: KnownJobs): void {
  const known = jobs.listKinds().flatMap((kind) => kind.subject ?? []);
  if (known.some((name) => subject.startsWith(`${name}:`) && subject.length > name.length + 1))
    return;
  throw new AppError('invalidInput', `A key cannot be bound to ${subject}.`, {
    hint: `Use one of: ${known.map((name) => `${name}:…`).join(', ')}.`,
  });
}

function listKeysOperation(access: Access, jobs: KnownJobs): Operation {
  return defineOperation({
    ...listKeys,
    title: 'List keys',
    description:
      'Lists all keys with owner, scopes, limits, expiry and what each allows in words, but never the key itself. Use it to find the id for revoke_key or rotate_key. Read-only.',
    effect: 'read',
    scope: 'admin',
    reach: withinLimits,
    http: { method: 'GET', path: '/api/keys' },
    cli: {
      words: ['key', 'list'],
      table: {
        rows: 'keys',
        columns: [
          'id',
          'owner',
          'name',
          'scopes',
          'kinds',
          'queues',
          'subject',
          'expiresAt',
          'revokedAt',
        ],
      },
    },
    run: async ({ owner }, { caller }) => {
      const found = await access.list(owner === undefined ? {} : { owner });
      const shown = found.filter((row) => covers(caller!, row));
      return { keys: shown.map((row) => ({ ...toView(row), ...rightsOf(row, jobs) })) };
    },
  });
}

function revokeKeyOperation(access: Access): Operation {
  return defineOperation({
    ...revokeKey,
    title: 'Revoke key',
    description:
      'Revokes a key: calls with it are rejected from now on. Jobs it started continue; if it was limited, its webhooks are removed. To replace it with a new key with the same rights, use rotate_key.',
    effect: 'destroy',
    idempotent: true,
    scope: 'admin',
    reach: withinLimits,
    http: { method: 'DELETE', path: '/api/keys/{id}' },
    cli: { words: ['key', 'revoke'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      await requireVisibleKey(access, id, caller!);
      return toView(await access.revoke(id));
    },
  });
}

function rotateKeyOperation(access: Access, jobs: KnownJobs): Operation {
  return defineOperation({
    ...rotateKey,
    title: 'Rotate key',
    description:
      'Replaces a key with a new one that has the same owner, scopes and limits, and revokes the old one immediately. Use it when a key may have leaked. To revoke a key without a replacement, use revoke_key.',
    effect: 'write',
    scope: 'admin',
    reach: withinLimits,
    http: { method: 'POST', path: '/api/keys/{id}/rotate' },
    cli: {
      words: ['key', 'rotate'],
      args: ['id'],
      text: (created) => keyText(created as CreatedKey),
    },
    run: async ({ id }, { caller }) => {
      await requireVisibleKey(access, id, caller!);
      return toCreatedView(await access.rotate(id, caller!), jobs);
    },
  });
}

/** A key with more rights than the caller's is reported as unknown. */
async function requireVisibleKey(access: Access, id: string, caller: Caller): Promise<void> {
  const row = await access.find(id);
  if (!row || !covers(caller, row)) throw unknownKey(id);
}

function toCreatedView({ key, row }: { key: string; row: KeyRow }, jobs: KnownJobs): CreatedKey {
  return {
    key,
    ...toView(row),
    ...rightsOf(row, jobs),
  };
}

function rightsOf(row: KeyRow, jobs: KnownJobs) {
  return { allows: describeRights(row, jobs.listKinds()), limits: describeLimits(row) };
}

/** For a terminal: the key and a plain description of its rights. */
function keyText({ key, id, expiresAt, allows, limits }: CreatedKey): string {
  const lines = (items: readonly string[]) => items.map((line) => `  - ${line}`);
  return [
    key,
    '',
    `This key is shown only once. Its id is ${id}. To revoke it: \`errand key revoke ${id}\``,
    'Anyone who has it can:',
    ...lines(allows),
    ...(limits.length > 0 ? ['Limits:', ...lines(limits)] : []),
    expiresAt === undefined ? 'It does not expire.' : `It expires at ${expiresAt}.`,
  ].join('\n');
}

function toView(row: KeyRow): OutputOf<typeof revokeKey> {
  const iso = (at: number | null) => (at === null ? undefined : isoTime(at));
  const expiresAt = iso(row.expiresAt);
  const revokedAt = iso(row.revokedAt);
  return {
    id: row.id,
    owner: row.owner,
    ...(row.name === null ? {} : { name: row.name }),
    scopes: row.scopes,
    ...(row.kinds ? { kinds: row.kinds } : {}),
    ...(row.queues ? { queues: row.queues } : {}),
    ...(row.subject ? { subject: row.subject } : {}),
    createdAt: iso(row.createdAt)!,
    ...(expiresAt ? { expiresAt } : {}),
    ...(revokedAt ? { revokedAt } : {}),
  };
}
