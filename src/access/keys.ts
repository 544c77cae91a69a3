// API keys. A key belongs to an owner, is stored only as a hash, and has scopes, optional limits (kinds, queues, subject)
// and an optional expiry. The home's owner key is in a 0600 file, never in the database.
import { hash as hashOf } from 'node:crypto';
import { AppError } from '../errors.ts';
import { randomId } from '../runtime/id.ts';
import { scopes, type Caller, type Scope } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { JsonColumns, Migration, Row, Step, Store } from '../store/store.ts';
import { rejectExcess, type Grant, type Grantor } from './grants.ts';

export const accessJsonColumns: JsonColumns = {
  keys: { scopes: Array.isArray, kinds: Array.isArray, queues: Array.isArray },
  sessions: { scopes: Array.isArray },
  login_codes: { scopes: Array.isArray },
};

export const accessMigrations: Migration[] = [
  {
    id: 'access/1',
    statements: ({ int, strict }) => [
      `CREATE TABLE keys (
        id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, name TEXT, scopes TEXT NOT NULL,
        kinds TEXT, queues TEXT, subject TEXT, created_at ${int} NOT NULL, expires_at ${int}, revoked_at ${int}
      ) ${strict}`,
      'CREATE INDEX keys_owner ON keys (owner, created_at)',
      'CREATE INDEX keys_subject ON keys (subject) WHERE subject IS NOT NULL',
    ],
  },
];

export interface NewKey extends Grant {
  name?: string | null;
}

export interface KeyRow {
  id: string;
  owner: string;
  name: string | null;
  scopes: Scope[];
  kinds: string[] | null;
  queues: string[] | null;
  subject: string | null;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
}

export const ownerName = 'owner';

/** A revoked key may still work for this long, on this node and on others. */
const cacheMs = 2000;
const maxCacheCount = 10_000;

export class Access {
  private readonly store: Store;
  private readonly clock: Clock;
  private readonly ownerHash: string;
  private readonly owner = ownerCaller(false);
  private readonly kindRules: KindRules;
  private readonly endings: ((keyId: string) => Step[])[] = [];
  private readonly cache = new Map<string, { caller: Caller | undefined; until: number }>();

  constructor(store: Store, clock: Clock, ownerKey: string, kindRules = noKindRules) {
    this.store = store;
    this.clock = clock;
    this.kindRules = kindRules;
    this.ownerHash = digest(ownerKey);
  }

  /** Adds steps that are committed together with the revocation of a key. */
  onEnd(steps: (keyId: string) => Step[]): void {
    this.endings.push(steps);
  }

  private endSteps(keyId: string): Step[] {
    return this.endings.flatMap((steps) => steps(keyId));
  }

  /** Returns the caller that a key authenticates; undefined if the key is unknown, expired or revoked. */
  async authenticate(key: string): Promise<Caller | undefined> {
    if (key.length < 8 || key.length > 200) return undefined;
    const hash = digest(key);
    // The time of this comparison depends on the hash, which does not reveal a random key.
    if (hash === this.ownerHash) return this.owner;
    const now = this.clock.now();
    const known = this.cache.get(hash);
    if (known && known.until > now) return known.caller;
    const { caller, expiresAt } = await this.lookUp(hash, now);
    if (this.cache.size >= maxCacheCount) this.cache.clear();
    this.cache.set(hash, { caller, until: Math.min(now + cacheMs, expiresAt ?? Infinity) });
    return caller;
  }

  /** The only call that returns the key itself. */
  async create(request: NewKey, grantor: Grantor): Promise<{ key: string; row: KeyRow }> {
    const { key, row, steps } = this.plan(request, grantor);
    await this.store.commit(steps);
    return { key, row };
  }

  /** Returns the steps that create a key, for the caller's own transaction. Rejects rights that the grantor lacks. */
  plan(request: NewKey, grantor: Grantor): { key: string; row: KeyRow; steps: Step[] } {
    rejectExcess(request, grantor);
    const id = randomId('key_', 12);
    const key = randomId('errand_', 40);
    const row: KeyRow = {
      id,
      owner: request.owner,
      name: request.name ?? null,
      scopes: [...request.scopes],
      kinds: request.kinds ? [...request.kinds] : null,
      queues: request.queues ? [...request.queues] : null,
      subject: request.subject ?? null,
      createdAt: this.clock.now(),
      expiresAt: request.expiresAt ?? null,
      revokedAt: null,
    };
    const step: Step = {
      sql: `INSERT INTO keys (id, hash, owner, name, scopes, kinds, queues, subject, created_at, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        id,
        digest(key),
        row.owner,
        row.name,
        JSON.stringify(row.scopes),
        row.kinds && JSON.stringify(row.kinds),
        row.queues && JSON.stringify(row.queues),
        row.subject,
        row.createdAt,
        row.expiresAt,
      ],
    };
    return { key, row, steps: [step] };
  }

  async list(filter: { owner?: string; subject?: string }): Promise<KeyRow[]> {
    const conditions = Object.entries(filter).filter(([, value]) => value !== undefined);
    const where = conditions.map(([column]) => `${column} = ?`).join(' AND ');
    const rows = await this.store.read(
      `SELECT * FROM keys ${where && `WHERE ${where}`} ORDER BY created_at, id`,
      conditions.map(([, value]) => value),
    );
    return rows.map(keyFromRow);
  }

  async find(id: string): Promise<KeyRow | undefined> {
    const [row] = await this.store.read('SELECT * FROM keys WHERE id = ?', [id]);
    return row && keyFromRow(row);
  }

  async revoke(id: string): Promise<KeyRow> {
    const row = await this.find(id);
    if (!row) throw unknownKey(id);
    const now = this.clock.now();
    await this.store.commit([revokeStep(id, now), ...this.endSteps(id)]);
    this.cache.clear();
    return { ...row, revokedAt: row.revokedAt ?? now };
  }

  /** Creates a key with the same rights and revokes the old one immediately. */
  async rotate(id: string, grantor: Grantor): Promise<{ key: string; row: KeyRow }> {
    const old = await this.find(id);
    if (!old || !isActive(old, this.clock.now())) throw inactiveKey(id);
    const { owner, name, scopes: granted, kinds, queues, subject, expiresAt } = old;
    const grant = { owner, name, scopes: granted, kinds, queues, subject, expiresAt };
    const created = this.plan(grant, grantor);
    const end = { ...revokeStep(id, this.clock.now()), expect: 1 };
    // A concurrent call revoked the old key first. Nothing was written here.
    const steps = [...created.steps, end, ...this.endSteps(id)];
    if (!(await this.store.commit(steps)).applied) throw inactiveKey(id);
    this.cache.clear();
    return { key: created.key, row: created.row };
  }

  private async lookUp(hash: string, now: number): Promise<KeyLookup> {
    const [row] = await this.store.read('SELECT * FROM keys WHERE hash = ?', [hash]);
    return this.lookUpRow(row && keyFromRow(row), now);
  }

  /** The caller of a key by id, for sessions that the key created. */
  async findCaller(id: string): Promise<KeyLookup> {
    return this.lookUpRow(await this.find(id), this.clock.now());
  }

  private lookUpRow(key: KeyRow | undefined, now: number): KeyLookup {
    if (!key || !isActive(key, now)) return { caller: undefined, expiresAt: null };
    const caller = {
      owner: key.owner,
      scopes: new Set(key.scopes),
      admin: key.scopes.includes('admin'),
      local: false,
      keyId: key.id,
      ...this.kindsOf(key),
      ...(key.queues ? { queues: key.queues } : {}),
      ...(key.subject ? { subject: key.subject } : {}),
      ...(key.expiresAt === null ? {} : { expiresAt: key.expiresAt }),
    };
    return { caller, expiresAt: key.expiresAt };
  }

  /** A key with a subject is also limited to the kinds that support that subject. */
  private kindsOf({ kinds, subject }: KeyRow): { kinds?: readonly string[] } {
    if (!kinds && subject === null) return {};
    const named = kinds && this.kindRules.withParts(kinds);
    const bound = subject === null ? undefined : this.kindRules.ofSubject(subject);
    return {
      kinds: named && bound ? named.filter((one) => bound.includes(one)) : (named ?? bound!),
    };
  }
}

const noKindRules: KindRules = { withParts: (kinds) => kinds, ofSubject: () => [] };

/** Resolves the kinds that a limited key may use. */
interface KindRules {
  /** These kinds and all kinds that are part of them. */
  withParts(kinds: readonly string[]): readonly string[];
  /** The kinds whose jobs can belong to this subject. */
  ofSubject(subject: string): readonly string[];
}

export interface KeyLookup {
  caller: Caller | undefined;
  expiresAt: number | null;
}

const isActive = ({ revokedAt, expiresAt }: KeyRow, now: number): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > now);

/** The home's owner, with all rights: over the private socket or with the owner key. */
export function ownerCaller(local: boolean): Caller {
  return { owner: ownerName, scopes: new Set(scopes), admin: true, local };
}

export function unknownKey(id: string): AppError {
  return new AppError('notFound', `Key ${id} does not exist.`, {
    hint: '`errand key list` shows all keys. `errand key create` creates a new one.',
  });
}

function inactiveKey(id: string): AppError {
  return new AppError('notFound', `Key ${id} does not exist, has expired or was revoked.`, {
    hint: '`errand key list` shows all keys. `errand key create` creates a new one.',
  });
}

const revokeStep = (id: string, now: number): Step => ({
  sql: 'UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
  params: [now, id],
});

const digest = (key: string): string => hashOf('sha256', key, 'hex');

/** A key whose scopes or limits cannot be decoded has no rights. */
function keyFromRow(row: Row): KeyRow {
  const stored = [row.scopes, row.kinds, row.queues];
  const isDamaged = stored.some(
    (value) => value !== null && !Array.isArray(decodeJsonOr(value, 0)),
  );
  const list = (value: unknown) =>
    isDamaged ? [] : value === null ? null : decodeJsonOr<string[]>(value, []);
  return {
    id: row.id as string,
    owner: row.owner as string,
    name: row.name as string | null,
    scopes: list(row.scopes) as Scope[],
    kinds: list(row.kinds),
    queues: list(row.queues),
    subject: row.subject as string | null,
    createdAt: row.created_at as number,
    expiresAt: row.expires_at as number | null,
    revokedAt: row.revoked_at as number | null,
  };
}
