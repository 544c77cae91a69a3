// Operations on dashboard sessions: create a login code, show the caller, list and revoke sessions.
import { z } from 'zod';
import { createLoginCode } from '../contracts/sessions.ts';
import { AppError } from '../errors.ts';
import { defineOperation, scopes, type Caller, type Operation } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';
import { covers } from './grants.ts';
import { isReadOnly, type SessionRow, type Sessions } from './sessions.ts';

interface SessionOperationsDeps {
  sessions: Sessions;
  version: string;
  /** The kinds of jobs that this server offers. */
  kinds(): readonly string[];
  /** The URL of this server for clients, once a port is open. */
  url(): string | undefined;
  /** Returns that URL and opens a loopback port if there is none. */
  openUrl(): Promise<string>;
}

const sessionView = z.object({
  id: z.string(),
  owner: z.string(),
  keyId: z.string().optional().describe('The key that created it; absent for the owner'),
  scopes: z.array(z.enum(scopes)),
  readOnly: z.boolean(),
  client: z.string().optional().describe('The browser, as it describes itself'),
  createdAt: z.string(),
  seenAt: z.string().describe('Last use, accurate to a minute'),
  expiresAt: z.string(),
  isCurrent: z.boolean().describe('The session of this call'),
});

export function sessionOperations(deps: SessionOperationsDeps): Operation[] {
  return [createLoginCodeOperation(deps), getCaller(deps), listSessions(deps), revokeSession(deps)];
}

function createLoginCodeOperation({ sessions, openUrl }: SessionOperationsDeps): Operation {
  return defineOperation({
    ...createLoginCode,
    title: 'Create login code',
    description:
      'Creates a single-use code, valid for 60 s, with which a browser on this machine logs in to the dashboard as the owner of the home. Opens a loopback port if the server has none. `errand open` uses it. Only callers on the private socket may call it. Not for agents.',
    effect: 'write',
    scope: 'admin',
    reach: 'everything',
    http: { method: 'POST', path: '/api/sessions/code' },
    run: async ({ readOnly }, { caller }) => {
      if (!caller!.local)
        throw new AppError('forbidden', 'Login codes are created on the private socket only.', {
          hint: 'Run `errand open` on the machine of the server, or log in with an API key.',
        });
      const url = await openUrl();
      const { code, expiresAt } = await sessions.createCode(readOnly);
      return { code, url: `${url}/login#${code}`, expiresAt: isoTime(expiresAt) };
    },
  });
}

function getCaller({ sessions, version, kinds: offered, url }: SessionOperationsDeps): Operation {
  return defineOperation({
    name: 'get_caller',
    title: 'Get caller',
    description:
      'Shows who the server takes the caller for: owner, scopes, limits of the key, and the dashboard session if there is one. Use it to find out what a key allows. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: 'nothing',
    input: z.object({}),
    output: z.object({
      owner: z.string(),
      scopes: z.array(z.enum(scopes)),
      admin: z.boolean().describe('Sees the jobs of all owners'),
      limits: z.object({
        kinds: z.array(z.string()).optional(),
        queues: z.array(z.string()).optional(),
        subject: z.string().optional(),
      }),
      session: sessionView.optional(),
      server: z.object({
        version: z.string(),
        kinds: z.array(z.string()).describe('Kinds of jobs that this server offers'),
        url: z.string().optional(),
      }),
    }),
    http: { method: 'GET', path: '/api/me' },
    cli: { words: ['whoami'], summary: 'what the key or the session allows' },
    run: async (_input, { caller }) => {
      if (!caller)
        throw new AppError('unauthorized', 'A key or a session is required.', {
          hint: 'Send `Authorization: Bearer <key>`, or log in at /login.',
        });
      const { sessionId, kinds, queues, subject } = caller;
      const session = sessionId === undefined ? undefined : await sessions.find(sessionId);
      const address = url();
      return {
        owner: caller.owner,
        scopes: scopes.filter((scope) => caller.scopes.has(scope)),
        admin: caller.admin,
        limits: {
          ...(kinds ? { kinds: [...kinds] } : {}),
          ...(queues ? { queues: [...queues] } : {}),
          ...(subject === undefined ? {} : { subject }),
        },
        ...(session ? { session: toView(session, caller) } : {}),
        server: {
          version,
          kinds: [...offered()],
          ...(address === undefined ? {} : { url: address }),
        },
      };
    },
  });
}

function listSessions({ sessions }: SessionOperationsDeps): Operation {
  return defineOperation({
    name: 'list_sessions',
    title: 'List sessions',
    description:
      'Lists the open dashboard sessions that have no more rights than the caller: browser, last use, expiry. Use it to find a session for revoke_session. Read-only.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    input: z.object({}),
    output: z.object({ sessions: z.array(sessionView) }),
    http: { method: 'GET', path: '/api/sessions' },
    cli: {
      words: ['session', 'list'],
      summary: 'open dashboard sessions',
      table: {
        rows: 'sessions',
        columns: ['id', 'owner', 'readOnly', 'seenAt', 'expiresAt', 'client'],
      },
    },
    run: async (_input, { caller }) => {
      const found = await sessions.list();
      const visible = found.filter((row) => maySee(caller!, row));
      return { sessions: visible.map((row) => toView(row, caller!)) };
    },
  });
}

function revokeSession({ sessions }: SessionOperationsDeps): Operation {
  return defineOperation({
    name: 'revoke_session',
    title: 'Revoke session',
    description:
      'Ends a dashboard session: its browser has to log in again. Jobs are not affected. A revoked key ends its sessions as well (revoke_key).',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    input: z.object({ id: z.string().regex(/^ses_[0-9a-z]{12}$/, 'not a session id') }),
    output: z.object({ id: z.string(), revoked: z.literal(true) }),
    http: { method: 'DELETE', path: '/api/sessions/{id}' },
    cli: {
      words: ['session', 'revoke'],
      args: ['id'],
      summary: 'end a dashboard session',
      text: (output) => `${(output as { id: string }).id} revoked`,
    },
    run: async ({ id }, { caller }) => {
      const row = await sessions.find(id);
      if (!row || !maySee(caller!, row))
        throw new AppError('notFound', `Session ${id} does not exist.`, {
          hint: '`errand session list` shows the open sessions.',
        });
      await sessions.revoke(id);
      return { id, revoked: true as const };
    },
  });
}

/** The own session, the sessions of the own key, and those of weaker keys of the same owner. */
function maySee(caller: Caller, { id, owner, keyId, scopes: granted }: SessionRow): boolean {
  if (id === caller.sessionId) return true;
  const { kinds, queues, subject } = caller;
  const isSameKey = keyId !== null && keyId === caller.keyId;
  const limits = isSameKey ? { kinds, queues, subject } : {};
  return covers(caller, { owner, scopes: granted, ...limits });
}

function toView(row: SessionRow, caller: Caller): z.infer<typeof sessionView> {
  return {
    id: row.id,
    owner: row.owner,
    ...(row.keyId === null ? {} : { keyId: row.keyId }),
    scopes: row.scopes,
    readOnly: isReadOnly(row.scopes),
    ...(row.client === null ? {} : { client: row.client }),
    createdAt: isoTime(row.createdAt),
    seenAt: isoTime(row.seenAt),
    expiresAt: isoTime(row.expiresAt),
    isCurrent: row.id === caller.sessionId,
  };
}
