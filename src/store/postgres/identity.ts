// Which cluster a schema belongs to. The first node writes the name and what all nodes share; later ones must bring the
// same, so that two clusters never work on one schema by mistake.
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { AppError } from '../../errors.ts';
import type { Address } from './open.ts';

export interface Identity {
  name: string;
  /** Given to every node by its operator; without one the database keeps a secret that was made for it. */
  key: string | undefined;
}

interface ClusterRow {
  name: string;
  /** In hex where there is no key; sealed with the key, or null: made from the key. */
  secret: string | null;
  fingerprint: string;
}

/** Instead of a fingerprint: the secret came with a copied store, and the first node decides on name and key. */
const unclaimed = 'unclaimed';

/** Answers the secret that all nodes of the cluster share. */
export async function joinCluster(pool: Pool, address: Address, wish: Identity): Promise<Buffer> {
  const made = wish.key === undefined ? randomBytes(32).toString('hex') : null;
  await pool.query(
    `INSERT INTO cluster (id, name, secret, fingerprint) VALUES (1, $1, $2, $3)
     ON CONFLICT (id) DO NOTHING`,
    [wish.name, made, fingerprint(wish.key)],
  );
  let row = (await clusterRow(pool))!;
  if (row.fingerprint === unclaimed) {
    await claim(pool, row, wish);
    row = (await clusterRow(pool))!;
  }
  if (row.name !== wish.name) {
    throw new AppError(
      'conflict',
      `${whereIs(address)} belongs to the cluster ${row.name}, not ${wish.name}.`,
      {
        hint: 'Give every cluster a schema of its own (…?schema=name), or set ERRAND_CLUSTER to its name.',
      },
    );
  }
  return secretIn(row, address, wish.key);
}

/** What a copy of this store must take along, or signatures and sealed keys of its rows are lost; undefined: nobody served it. */
export async function sharedSecret(
  pool: Pool,
  address: Address,
  key: string | undefined,
): Promise<Buffer | undefined> {
  const row = await clusterRow(pool);
  if (!row) return undefined;
  return row.fingerprint === unclaimed
    ? Buffer.from(row.secret!, 'hex')
    : secretIn(row, address, key);
}

/** The other side of a copy: for the first node that joins. */
export async function bequeath(pool: Pool, secret: Buffer): Promise<void> {
  await pool.query(
    `INSERT INTO cluster (id, name, secret, fingerprint) VALUES (1, '', $1, $2)
     ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, fingerprint = excluded.fingerprint`,
    [secret.toString('hex'), unclaimed],
  );
}

/** Of two nodes that start at once one is first, and the other must have the same key. */
async function claim(pool: Pool, { secret }: ClusterRow, { name, key }: Identity): Promise<void> {
  const kept = key === undefined ? secret : seal(Buffer.from(secret!, 'hex'), key);
  await pool.query(
    'UPDATE cluster SET name = $1, secret = $2, fingerprint = $3 WHERE id = 1 AND fingerprint = $4',
    [name, kept, fingerprint(key), unclaimed],
  );
}

function secretIn(row: ClusterRow, address: Address, key: string | undefined): Buffer {
  if (row.fingerprint !== fingerprint(key)) {
    const what = key === undefined ? 'needs a cluster key' : 'has another cluster key';
    throw new AppError('unauthorized', `${whereIs(address)} ${what}.`, {
      hint: 'All nodes of a cluster need the same ERRAND_CLUSTER_KEY (or none of them any).',
    });
  }
  if (key === undefined) return Buffer.from(row.secret!, 'hex');
  return row.secret === null ? derived(key) : unseal(row.secret, key);
}

async function clusterRow(pool: Pool): Promise<ClusterRow | undefined> {
  const { rows } = await pool.query<ClusterRow>(
    'SELECT name, secret, fingerprint FROM cluster WHERE id = 1',
  );
  return rows[0];
}

const whereIs = ({ schema, shown }: Address): string => `Schema ${schema} at ${shown}`;

const derived = (key: string): Buffer =>
  createHmac('sha256', key).update('errand cluster').digest();

const fingerprint = (key: string | undefined): string =>
  key === undefined ? 'none' : createHash('sha256').update(derived(key)).digest('hex').slice(0, 32);

const cipher = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;
const sealingKey = (key: string): Buffer =>
  createHmac('sha256', key).update('errand sealed secret').digest();

function seal(secret: Buffer, key: string): string {
  const iv = randomBytes(ivBytes);
  const sealing = createCipheriv(cipher, sealingKey(key), iv);
  const text = Buffer.concat([sealing.update(secret), sealing.final()]);
  return Buffer.concat([iv, sealing.getAuthTag(), text]).toString('base64');
}

function unseal(sealed: string, key: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64');
  const opening = createDecipheriv(cipher, sealingKey(key), bytes.subarray(0, ivBytes));
  opening.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  return Buffer.concat([opening.update(bytes.subarray(ivBytes + tagBytes)), opening.final()]);
}
