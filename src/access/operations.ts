// Keys as people manage them. All need the admin scope, and none reaches beyond the limits of the key that calls.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { lifeMsMax, queueForm, queueFormWords } from '../jobs/job.ts';
import { defineOperation, scopes, type Caller, type Operation } from '../operation.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import { unknownKey, type Access, type KeyRow } from './access.ts';
import { allowsLines, limitsLines, type KindWords } from './allows.ts';
import { covers } from './granting.ts';

const keyView = z.object({
  id: z.string(),
  owner: z.string(),
  name: z.string().optional(),
  scopes: z.array(z.enum(scopes)),
  kinds: z.array(z.string()).optional(),
  queues: z.array(z.string()).optional(),
  subject: z.string().optional(),
  createdAt: z.string(),
  expiresAt: z.string().optional(),
  revokedAt: z.string().optional(),
});
const madeKey = keyView.extend({
  key: z.string().describe('Shown once; only its hash is kept'),
  allows: z.array(z.string()).describe('What anybody who has the key can do'),
  limits: z.array(z.string()).describe('What narrows that'),
});
type MadeKey = z.infer<typeof madeKey>;
/** The limits of keys are checked by what the operations do: `covers` and `Access.plan`. */
const withinLimits = { filters: ['kinds', 'queues', 'subject'] } as const;
const keyId = z.string().regex(/^key_[0-9a-z]{12}$/, 'not a key id');

export function accessOperations(access: Access, jobs: KnownJobs, clock: Clock): Operation[] {
  return [
    createKey(access, jobs, clock),
    listKeys(access),
    revokeKey(access),
    rotateKey(access, jobs),
  ];
}

/** What jobs there can be: an unknown kind throws. */
export interface KnownJobs {
  kind(name: string): unknown;
  listKinds(): KindWords[];
}

function createKey(access: Access, jobs: KnownJobs, clock: Clock): Operation {
  return defineOperation({
    name: 'create_key',
    title: 'Create key',
    description:
      'Makes an API key for an owner with scopes (read, run, worker, admin), optionally limited to kinds, queues, one endpoint or wallet, and a time. A key with scope run and without limits lets anyone who has it run commands as the user of this server. The key is shown once. Use it to give another person, agent or worker access over HTTP; on this machine none is needed. revoke_key ends it.',
    effect: 'write',
    scope: 'admin',
    reach: withinLimits,
    input: z.strictObject({
      name: z.string().max(100).optional(),
      owner: z
        .string()
        .regex(/^[\w.@-]{1,100}$/)
        .default('owner')
        .describe('Whose jobs it makes and sees'),
      scopes: z.array(z.enum(scopes)).min(1).default(['read', 'run']),
      kinds: z.array(z.string().max(40)).min(1).optional().describe('Only work of these kinds'),
      queues: z
        .array(z.string().regex(queueForm, queueFormWords))
        .min(1)
        .optional()
        .describe('Only jobs of these queues'),
      subject: z.string().max(200).optional().describe('Bound to this, like endpoint:my-model'),
      expiresInMs: z
        .number()
        .int()
        .min(1000)
        .max(lifeMsMax)
        .optional()
        .describe('Key expires after this many ms'),
    }),
    output: madeKey,
    http: { method: 'POST', path: '/api/keys' },
    cli: { words: ['key', 'create'], args: ['name'], text: (made) => keyText(made as MadeKey) },
    run: async ({ expiresInMs, ...wish }, { caller }) => {
      const { name, kinds, queues, subject } = wish;
      for (const kind of kinds ?? []) jobs.kind(kind);
      if (subject !== undefined) refuseUnknownSubject(subject, jobs);
      const grant = { owner: wish.owner, scopes: wish.scopes, kinds, queues, subject };
      const expiresAt = expiresInMs === undefined ? undefined : clock.now() + expiresInMs;
      return showMade(await access.create({ ...grant, name, expiresAt }, caller!), jobs);
    },
  });
}

/** A misspelt one would bind the key to nothing, and so let it do more than was meant. */
function refuseUnknownSubject(subject: string, jobs: KnownJobs): void {
  const known = jobs.listKinds().flatMap((kind) => kind.subject ?? []);
  if (known.some((name) => subject.startsWith(`${name}:`) && subject.length > name.length + 1))
    return;
  throw new AppError('invalidInput', `A key cannot be bound to ${subject}.`, {
    hint: `It can be to: ${known.map((name) => `${name}:…`).join(', ')}.`,
  });
}

function listKeys(access: Access): Operation {
  return defineOperation({
    name: 'list_keys',
    title: 'List keys',
    description:
      'Shows every key with its owner, scopes, limits and end, never the key itself. Use it to find the id for revoke_key or rotate_key. Changes nothing.',
    effect: 'read',
    scope: 'admin',
    reach: withinLimits,
    input: z.object({ owner: z.string().max(100).optional() }),
    output: z.object({ keys: z.array(keyView) }),
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
      return { keys: found.filter((row) => covers(caller!, row)).map(show) };
    },
  });
}

function revokeKey(access: Access): Operation {
  return defineOperation({
    name: 'revoke_key',
    title: 'Revoke key',
    description:
      'Ends a key: calls with it are refused from now on. Jobs it started go on. Use rotate_key instead to replace it by a new one with the same rights.',
    effect: 'destroy',
    idempotent: true,
    scope: 'admin',
    reach: withinLimits,
    input: z.object({ id: keyId }),
    output: keyView,
    http: { method: 'DELETE', path: '/api/keys/{id}' },
    cli: { words: ['key', 'revoke'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      await reachedKey(access, id, caller!);
      return show(await access.revoke(id));
    },
  });
}

function rotateKey(access: Access, jobs: KnownJobs): Operation {
  return defineOperation({
    name: 'rotate_key',
    title: 'Rotate key',
    description:
      'Replaces a key by a new one with the same owner, scopes and limits, and ends the old one in the same moment. Use it when a key may be known to others; revoke_key ends it without a successor.',
    effect: 'write',
    scope: 'admin',
    reach: withinLimits,
    input: z.object({ id: keyId }),
    output: madeKey,
    http: { method: 'POST', path: '/api/keys/{id}/rotate' },
    cli: { words: ['key', 'rotate'], args: ['id'], text: (made) => keyText(made as MadeKey) },
    run: async ({ id }, { caller }) => {
      await reachedKey(access, id, caller!);
      return showMade(await access.rotate(id, caller!), jobs);
    },
  });
}

/** A key that allows more than the caller's own looks unknown. */
async function reachedKey(access: Access, id: string, caller: Caller): Promise<void> {
  const row = await access.find(id);
  if (!row || !covers(caller, row)) throw unknownKey(id);
}

function showMade({ key, row }: { key: string; row: KeyRow }, jobs: KnownJobs): MadeKey {
  return {
    key,
    ...show(row),
    allows: allowsLines(row, jobs.listKinds()),
    limits: limitsLines(row),
  };
}

/** For a terminal: the key, and in words what it gives away. */
function keyText({ key, id, expiresAt, allows, limits }: MadeKey): string {
  const lines = (items: readonly string[]) => items.map((line) => `  - ${line}`);
  return [
    key,
    '',
    `This is the only time the key is shown. Its id is ${id}; \`errand key revoke ${id}\` ends it.`,
    'Anyone who has it can:',
    ...lines(allows),
    ...(limits.length > 0 ? ['Limits:', ...lines(limits)] : []),
    expiresAt === undefined ? 'It does not expire.' : `It expires at ${expiresAt}.`,
  ].join('\n');
}

function show(row: KeyRow): z.infer<typeof keyView> {
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
