// Contracts of the operations on API keys.
import { z } from 'zod';
import { scopes } from '../authorization.ts';
import { defineContract } from '../contract.ts';
import { maxLifeMs, queueName } from './jobs.ts';

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
const describedKey = keyView.extend({
  allows: z.array(z.string()).describe('What anyone who has the key can do'),
  limits: z.array(z.string()).describe('What limits these rights'),
});
const createdKey = describedKey.extend({
  key: z.string().describe('Shown only once; the server stores a hash'),
});

const keyId = z.string().regex(/^key_[0-9a-z]{12}$/, 'not a key id');

export const createKey = defineContract({
  name: 'create_key',
  input: z.strictObject({
    name: z.string().max(100).optional(),
    owner: z
      .string()
      .regex(/^[\w.@-]{1,100}$/)
      .default('owner')
      .describe('Owner of the jobs that the key creates and sees'),
    scopes: z.array(z.enum(scopes)).min(1).default(['read', 'run']),
    kinds: z.array(z.string().max(40)).min(1).optional().describe('Only work of these kinds'),
    queues: z.array(queueName).min(1).optional().describe('Only jobs in these queues'),
    subject: z.string().max(200).optional().describe('Only this resource, e.g. endpoint:my-model'),
    expiresInMs: z
      .number()
      .int()
      .min(1000)
      .max(maxLifeMs)
      .optional()
      .describe('Key expires after this many ms'),
  }),
  output: createdKey,
});

export const listKeys = defineContract({
  name: 'list_keys',
  input: z.object({ owner: z.string().max(100).optional() }),
  output: z.object({ keys: z.array(describedKey) }),
});

export const revokeKey = defineContract({
  name: 'revoke_key',
  input: z.object({ id: keyId }),
  output: keyView,
});

export const rotateKey = defineContract({
  name: 'rotate_key',
  input: z.object({ id: keyId }),
  output: createdKey,
});
