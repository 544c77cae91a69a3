// Keys as people manage them. All need the admin scope: a key can never make itself a stronger one.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { lifeMsMax, queueForm, queueFormWords } from '../jobs/job.ts';
import { defineOperation, scopes, type Operation } from '../operation.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import type { Access, KeyRow } from './access.ts';

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
const madeKey = keyView.extend({ key: z.string().describe('Shown once; only its hash is kept') });
const keyId = z.string().regex(/^key_[0-9a-z]{12}$/, 'not a key id');

export function accessOperations(access: Access, jobs: KnownJobs, clock: Clock): Operation[] {
  return [createKey(access, jobs, clock), listKeys(access), revokeKey(access), rotateKey(access)];
}

/** What jobs there can be: an unknown kind throws. */
export interface KnownJobs {
  kind(name: string): unknown;
  listKinds(): { subject?: string }[];
}

function createKey(access: Access, jobs: KnownJobs, clock: Clock): Operation {
  return defineOperation({
    name: 'create_key',
    title: 'Create key',
    description:
      'Makes an API key for an owner with scopes (read, run, worker, admin), optionally limited to kinds, queues and a time. The key is shown once. Use it to give another person, agent or worker access over HTTP; on this machine none is needed. revoke_key ends it.',
    effect: 'write',
    scope: 'admin',
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
        .describe('It ends by itself after this'),
    }),
    output: madeKey,
    http: { method: 'POST', path: '/api/keys' },
    cli: { words: ['key', 'create'], args: ['name'] },
    run: async ({ expiresInMs, ...wish }) => {
      const { name, kinds, queues, subject } = wish;
      for (const kind of kinds ?? []) jobs.kind(kind);
      if (subject !== undefined) refuseUnknownSubject(subject, jobs);
      const { key, row } = await access.create({
        owner: wish.owner,
        scopes: wish.scopes,
        ...(name === undefined ? {} : { name }),
        ...(kinds === undefined ? {} : { kinds }),
        ...(queues === undefined ? {} : { queues }),
        ...(subject === undefined ? {} : { subject }),
        ...(expiresInMs === undefined ? {} : { expiresAt: clock.now() + expiresInMs }),
      });
      return { key, ...show(row) };
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
    run: async (filter) => ({
      keys: (await access.list(filter.owner === undefined ? {} : { owner: filter.owner })).map(
        show,
      ),
    }),
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
    input: z.object({ id: keyId }),
    output: keyView,
    http: { method: 'DELETE', path: '/api/keys/{id}' },
    cli: { words: ['key', 'revoke'], args: ['id'] },
    run: async ({ id }) => show(await access.revoke(id)),
  });
}

function rotateKey(access: Access): Operation {
  return defineOperation({
    name: 'rotate_key',
    title: 'Rotate key',
    description:
      'Replaces a key by a new one with the same owner, scopes and limits, and ends the old one in the same moment. Use it when a key may be known to others; revoke_key ends it without a successor.',
    effect: 'write',
    scope: 'admin',
    input: z.object({ id: keyId }),
    output: madeKey,
    http: { method: 'POST', path: '/api/keys/{id}/rotate' },
    cli: { words: ['key', 'rotate'], args: ['id'] },
    run: async ({ id }) => {
      const { key, row } = await access.rotate(id);
      return { key, ...show(row) };
    },
  });
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
