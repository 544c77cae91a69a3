// Keys: who may do what. A key belongs to an owner, is stored only as a hash, and has scopes, optional limits to kinds
// and queues, and an end. The home's owner key lives in a 0600 file, never in the database.
import { hash as hashOf, timingSafeEqual } from 'node:crypto';
import { AppError } from '../errors.ts';
import { randomId } from '../jobs/job.ts';
import { scopes, type Caller, type Scope } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { Migration, Row, Step, Store } from '../store/store.ts';
import { refuseBeyond, type Grant, type Grantor } from './granting.ts';

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

/** A revoked key may still work on this node for so long; on others until their copy is as old. */
const cacheMs = 2000;
const cacheCountMax = 10_000;

export class Access {
  private readonly store: Store;
  private readonly clock: Clock;
  private readonly ownerHash: Buffer;
  private readonly knownKinds: KnownKinds;
  private readonly cache = new Map<string, { caller: Caller | undefined; until: number }>();

  constructor(store: Store, clock: Clock, ownerKey: string, knownKinds = noKinds) {
    this.store = store;
    this.clock = clock;
    this.knownKinds = knownKinds;
    this.ownerHash = digest(ownerKey);
  }

  /** The caller of a bare key; undefined for anything unknown, expired or revoked. */
  async authenticate(key: string): Promise<Caller | undefined> {
    if (key.length < 8 || key.length > 200) return undefined;
    const hash = digest(key);
    if (timingSafeEqual(hash, this.ownerHash)) return ownerCaller(false);
    const name = hash.toString('hex');
    const now = this.clock.now();
    const known = this.cache.get(name);
    if (known && known.until > now) return known.caller;
    const { caller, expiresAt } = await this.lookUp(name, now);
    if (this.cache.size >= cacheCountMax) this.cache.clear();
    this.cache.set(name, { caller, until: Math.min(now + cacheMs, expiresAt ?? Infinity) });
    return caller;
  }

  /** The key itself is answered once and never again. */
  async create(wish: NewKey, grantor: Grantor): Promise<{ key: string; row: KeyRow }> {
    const { key, row, steps } = this.plan(wish, grantor);
    await this.store.commit(steps);
    return { key, row };
  }

  /** The steps that make a key, for a transaction of somebody else. Refuses what the grantor does not have itself. */
  plan(wish: NewKey, grantor: Grantor): { key: string; row: KeyRow; steps: Step[] } {
    refuseBeyond(wish, grantor);
    const id = randomId('key_', 12);
    const key = randomId('errand_', 40);
    const row: KeyRow = {
      id,
      owner: wish.owner,
      name: wish.name ?? null,
      scopes: [...wish.scopes],
      kinds: wish.kinds ? [...wish.kinds] : null,
      queues: wish.queues ? [...wish.queues] : null,
      subject: wish.subject ?? null,
      createdAt: this.clock.now(),
      expiresAt: wish.expiresAt ?? null,
      revokedAt: null,
    };
    const step: Step = {
      sql: `INSERT INTO keys (id, hash, owner, name, scopes, kinds, queues, subject, created_at, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        id,
        digest(key).toString('hex'),
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
    const given = Object.entries(filter).filter(([, value]) => value !== undefined);
    const where = given.map(([column]) => `${column} = ?`).join(' AND ');
    const rows = await this.store.read(
      `SELECT * FROM keys ${where && `WHERE ${where}`} ORDER BY created_at, id`,
      given.map(([, value]) => value),
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
    await this.store.commit([endStep(id, now)]);
    this.cache.clear();
    return { ...row, revokedAt: row.revokedAt ?? now };
  }

  /** A new key with the same rights; the old one ends now. */
  async rotate(id: string, grantor: Grantor): Promise<{ key: string; row: KeyRow }> {
    const old = await this.find(id);
    if (!old || !works(old, this.clock.now())) throw noWorkingKey(id);
    const { owner, name, scopes: granted, kinds, queues, subject, expiresAt } = old;
    const same = { owner, name, scopes: granted, kinds, queues, subject, expiresAt };
    const made = this.plan(same, grantor);
    const end = { ...endStep(id, this.clock.now()), expect: 1 };
    // Somebody else ended it in the same moment: their key counts, this one was never written.
    if (!(await this.store.commit([...made.steps, end])).applied) throw noWorkingKey(id);
    this.cache.clear();
    return { key: made.key, row: made.row };
  }

  private async lookUp(hash: string, now: number): Promise<Found> {
    const [row] = await this.store.read('SELECT * FROM keys WHERE hash = ?', [hash]);
    const key = row && keyFromRow(row);
    if (!key || !works(key, now)) return { caller: undefined, expiresAt: null };
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

  /** A key that is bound to something is limited to the kinds that know it, too. */
  private kindsOf({ kinds, subject }: KeyRow): { kinds?: readonly string[] } {
    if (!kinds && subject === null) return {};
    const named = kinds && this.knownKinds.withParts(kinds);
    const bound = subject === null ? undefined : this.knownKinds.ofSubject(subject);
    return {
      kinds: named && bound ? named.filter((one) => bound.includes(one)) : (named ?? bound!),
    };
  }
}

const noKinds: KnownKinds = { withParts: (kinds) => kinds, ofSubject: () => [] };

/** What a key that is limited to kinds or bound to something reaches. */
export interface KnownKinds {
  /** These kinds with all that are a part of them. */
  withParts(kinds: readonly string[]): readonly string[];
  /** The kinds whose jobs can belong to it. */
  ofSubject(subject: string): readonly string[];
}

interface Found {
  caller: Caller | undefined;
  expiresAt: number | null;
}

const works = ({ revokedAt, expiresAt }: KeyRow, now: number): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > now);

/** The home's owner: everything, over the private socket or with the owner key. */
export function ownerCaller(local: boolean): Caller {
  return { owner: ownerName, scopes: new Set(scopes), admin: true, local };
}

export function unknownKey(id: string): AppError {
  return new AppError('notFound', `There is no key ${id}.`, {
    hint: '`errand key list` shows them; `errand key create` makes a new one.',
  });
}

function noWorkingKey(id: string): AppError {
  return new AppError('notFound', `There is no working key ${id}.`, {
    hint: '`errand key list` shows them; `errand key create` makes a new one.',
  });
}

const endStep = (id: string, now: number): Step => ({
  sql: 'UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
  params: [now, id],
});

const digest = (key: string): Buffer => hashOf('sha256', key, 'buffer');

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
