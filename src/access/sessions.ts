// Dashboard sessions. A browser exchanges a single-use login code or an API key for a token that it keeps in a cookie. The
// token is stored as a hash. A session has at most the rights of the key that created it and ends with that key.
import { hash as hashOf } from 'node:crypto';
import { AppError } from '../errors.ts';
import { randomId } from '../runtime/id.ts';
import { scopes, type Caller, type Scope } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { Row, Step, Store } from '../store/store.ts';
import { heldScopes } from './grants.ts';
import { ownerCaller, type Access, type KeyLookup } from './keys.ts';

export interface SessionRow {
  id: string;
  owner: string;
  /** The key that created it; null for the owner of the home. */
  keyId: string | null;
  scopes: Scope[];
  /** The browser, as its User-Agent header describes it. */
  client: string | null;
  /** Where the server listened at the login. */
  port: number | null;
  createdAt: number;
  seenAt: number;
  expiresAt: number;
  revokedAt: number | null;
}

/** How a browser logs in: with a code from `errand open`, or with an API key. */
type Credential = { code: string } | { key: string };

interface LoginRequest {
  readOnly?: boolean;
  client?: string;
  port?: number;
}

interface SessionsDeps {
  store: Store;
  clock: Clock;
  access: Access;
  ownerKey: string;
  /** Lifetime of a session. */
  maxSessionMs: number;
}

/** Long enough for a browser to start. */
export const codeMs = 60_000;
/** A revoked session may still work for this long, on this node and on others. */
const cacheMs = 2000;
const maxCacheCount = 1000;
/** How often the last use of a session is written. */
const seenEveryMs = 60_000;
/** Ended sessions are listed for this long. */
const keepEndedMs = 7 * 86_400_000;
const maxClientChars = 200;
/** Sessions never act as workers. */
const sessionScopes = scopes.filter((scope) => scope !== 'worker');

interface Known {
  caller: Caller | undefined;
  until: number;
}

export class Sessions {
  private readonly deps: SessionsDeps;
  private readonly ownerGrant: string;
  private readonly cache = new Map<string, Known>();
  private readonly seen = new Map<string, number>();
  /** When a session last made a request to this server. */
  usedAt: number | undefined;

  constructor(deps: SessionsDeps) {
    this.deps = deps;
    this.ownerGrant = digest(`session\n${deps.ownerKey}`).slice(0, 16);
  }

  /** Creates a code that logs in as the owner of the home, once. */
  async createCode(readOnly: boolean): Promise<{ code: string; expiresAt: number }> {
    const code = randomId('', 40);
    const now = this.deps.clock.now();
    const expiresAt = now + codeMs;
    const granted = grantedScopes(ownerCaller(false), readOnly);
    await this.deps.store.commit([
      { sql: 'DELETE FROM login_codes WHERE expires_at <= ?', params: [now] },
      {
        sql: 'INSERT INTO login_codes (hash, scopes, expires_at) VALUES (?, ?, ?)',
        params: [digest(code), JSON.stringify(granted), expiresAt],
      },
    ]);
    return { code, expiresAt };
  }

  /** Returns the token of a new session. Only its hash is stored. */
  async logIn(
    credential: Credential,
    request: LoginRequest,
  ): Promise<{ token: string; expiresAt: number }> {
    return 'code' in credential
      ? this.useCode(credential.code, request)
      : this.useKey(credential.key, request);
  }

  /** Returns the caller that a session token authenticates; undefined if it is unknown, expired or revoked. */
  async authenticate(token: string): Promise<Caller | undefined> {
    if (token.length < 8 || token.length > 200) return undefined;
    const name = digest(token);
    const now = this.deps.clock.now();
    const known = this.cache.get(name) ?? { caller: undefined, until: 0 };
    const current = known.until > now ? known : await this.lookUp(name, now);
    const id = current.caller?.sessionId;
    if (id !== undefined) await this.markUsed(id, now);
    return current.caller;
  }

  async list(): Promise<SessionRow[]> {
    const { store, clock } = this.deps;
    const rows = await store.read(
      `SELECT * FROM sessions WHERE revoked_at IS NULL AND expires_at > ? ORDER BY created_at, id`,
      [clock.now()],
    );
    return rows.map(sessionFromRow);
  }

  async find(id: string): Promise<SessionRow | undefined> {
    const [row] = await this.deps.store.read('SELECT * FROM sessions WHERE id = ?', [id]);
    return row && sessionFromRow(row);
  }

  async revoke(id: string): Promise<void> {
    const sql = 'UPDATE sessions SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL';
    await this.deps.store.commit([{ sql, params: [this.deps.clock.now(), id] }]);
    this.cache.clear();
  }

  /** The port where the browser of the most recently used session expects this server. */
  async lastPort(usedSince: number): Promise<number | undefined> {
    const [row] = await this.deps.store.read<{ port: number }>(
      `SELECT port FROM sessions WHERE revoked_at IS NULL AND expires_at > ? AND seen_at >= ? AND port IS NOT NULL
       ORDER BY seen_at DESC LIMIT 1`,
      [this.deps.clock.now(), usedSince],
    );
    return row?.port;
  }

  private async useCode(
    code: string,
    request: LoginRequest,
  ): Promise<{ token: string; expiresAt: number }> {
    const { store, clock } = this.deps;
    const hash = digest(code);
    const [row] = await store.read('SELECT scopes FROM login_codes WHERE hash = ?', [hash]);
    const granted = decodeJsonOr<Scope[]>(row?.scopes ?? null, []);
    const limited = request.readOnly ? granted.filter((scope) => scope === 'read') : granted;
    const session = this.plan(
      { ...request, grantId: this.ownerGrant },
      ownerCaller(false),
      limited,
    );
    // The deletion makes the code single-use: of two concurrent logins, one conflicts.
    const use: Step = {
      sql: 'DELETE FROM login_codes WHERE hash = ? AND expires_at > ?',
      params: [hash, clock.now()],
      expect: 1,
    };
    if (row && (await store.commit([use, ...session.steps])).applied) return session;
    throw new AppError('unauthorized', 'The login code was already used or has expired.', {
      hint: `Run \`errand open\` again. A code works once, within ${codeMs / 1000} s.`,
    });
  }

  private async useKey(
    key: string,
    request: LoginRequest,
  ): Promise<{ token: string; expiresAt: number }> {
    const caller = await this.deps.access.authenticate(key);
    if (!caller)
      throw new AppError('unauthorized', 'The key is unknown, has expired or was revoked.', {
        hint: 'Create a key with `errand key create`, or run `errand open` on the machine of the server.',
      });
    const granted = grantedScopes(caller, request.readOnly === true);
    if (granted.length === 0)
      throw new AppError('forbidden', 'This key has no scope that a dashboard session can use.', {
        hint: 'Use a key with the scope read: `errand key create --scopes read`.',
      });
    const grantId = caller.keyId ?? this.ownerGrant;
    const session = this.plan({ ...request, grantId }, caller, granted);
    await this.deps.store.commit(session.steps);
    return session;
  }

  private plan(
    { grantId, client, port }: LoginRequest & { grantId: string },
    { owner, keyId, expiresAt: keyExpiresAt }: Caller,
    granted: readonly Scope[],
  ): { token: string; expiresAt: number; steps: Step[] } {
    const now = this.deps.clock.now();
    const token = randomId('', 40);
    const expiresAt = Math.min(now + this.deps.maxSessionMs, keyExpiresAt ?? Infinity);
    const insert: Step = {
      sql: `INSERT INTO sessions (id, hash, owner, key_id, grant_id, scopes, client, port, created_at, seen_at, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        randomId('ses_', 12),
        digest(token),
        owner,
        keyId ?? null,
        grantId,
        JSON.stringify(granted),
        client?.slice(0, maxClientChars) ?? null,
        port ?? null,
        now,
        now,
        expiresAt,
      ],
    };
    const forget: Step = {
      sql: 'DELETE FROM sessions WHERE expires_at < ? OR revoked_at < ?',
      params: [now - keepEndedMs, now - keepEndedMs],
    };
    return { token, expiresAt, steps: [forget, insert] };
  }

  private async lookUp(hash: string, now: number): Promise<Known> {
    const [row] = await this.deps.store.read('SELECT * FROM sessions WHERE hash = ?', [hash]);
    const session = row && sessionFromRow(row);
    const isOpen = session && session.revokedAt === null && session.expiresAt > now;
    const grant = isOpen ? await this.grantOf(session, row.grant_id as string) : undefined;
    const caller = grant?.caller && sessionCaller(session!, grant.caller);
    const until = Math.min(
      now + cacheMs,
      session?.expiresAt ?? Infinity,
      grant?.expiresAt ?? Infinity,
    );
    const known = { caller, until };
    if (this.cache.size >= maxCacheCount) this.cache.clear();
    this.cache.set(hash, known);
    return known;
  }

  /** The rights of the key behind a session. None if that key has expired, was revoked or was replaced. */
  private async grantOf({ keyId }: SessionRow, grantId: string): Promise<KeyLookup> {
    if (keyId !== null) return this.deps.access.findCaller(keyId);
    const caller = grantId === this.ownerGrant ? ownerCaller(false) : undefined;
    return { caller, expiresAt: null };
  }

  private async markUsed(id: string, now: number): Promise<void> {
    this.usedAt = now;
    const before = this.seen.get(id);
    if (before !== undefined && now - before < seenEveryMs) return;
    if (this.seen.size >= maxCacheCount) this.seen.clear();
    this.seen.set(id, now);
    const sql = 'UPDATE sessions SET seen_at = ? WHERE id = ? AND seen_at < ?';
    await this.deps.store.commit([{ sql, params: [now, id, now] }]);
  }
}

/** A session never has more rights than its key, even if the key is admin. */
function sessionCaller({ id, scopes: granted }: SessionRow, key: Caller): Caller {
  return { ...key, scopes: new Set(heldScopes(key, granted)), local: false, sessionId: id };
}

/** A key with the scope admin has all scopes. */
const grantedScopes = (caller: Caller, readOnly: boolean): Scope[] =>
  heldScopes(caller, readOnly ? ['read'] : sessionScopes);

const digest = (text: string): string => hashOf('sha256', text);

export const isReadOnly = (granted: readonly Scope[]): boolean =>
  granted.every((scope) => scope === 'read');

/** A session whose scopes cannot be decoded has no rights. */
function sessionFromRow(row: Row): SessionRow {
  const granted = decodeJsonOr<unknown>(row.scopes ?? null, []);
  return {
    id: row.id as string,
    owner: row.owner as string,
    keyId: row.key_id as string | null,
    scopes: Array.isArray(granted) ? (granted as Scope[]) : [],
    client: row.client as string | null,
    port: row.port as number | null,
    createdAt: row.created_at as number,
    seenAt: row.seen_at as number,
    expiresAt: row.expires_at as number,
    revokedAt: row.revoked_at as number | null,
  };
}
