// Records which cluster a schema belongs to. The first node writes the cluster name and key fingerprint. Later nodes must
// match them, so two clusters never use one schema by mistake.
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { AppError } from '../../errors.ts';
import type { Address } from './open.ts';

export interface Identity {
  name: string;
  /** Set by the operator on every node. Without a key, the database stores a generated secret. */
  key: string | undefined;
}

interface ClusterRow {
  name: string;
  /** Hex if the cluster has no key. With a key: sealed with the key, or null if derived from it. */
  secret: string | null;
  fingerprint: string;
}

/** The fingerprint of a copied store that no node has joined yet. The first node sets name and key. */
const unclaimed = 'unclaimed';

/** Returns the secret that all nodes of the cluster share. */
export async function joinCluster(
  pool: Pool,
  address: Address,
  identity: Identity,
): Promise<Buffer> {
  const secret = identity.key === undefined ? randomBytes(32).toString('hex') : null;
  await pool.query(
    `INSERT INTO cluster (id, name, secret, fingerprint) VALUES (1, $1, $2, $3)
     ON CONFLICT (id) DO NOTHING`,
    [identity.name, secret, fingerprint(identity.key)],
  );
  let row = (await clusterRow(pool))!;
  if (row.fingerprint === unclaimed) {
    await claim(pool, row, identity);
    row = (await clusterRow(pool))!;
  }
  if (row.name !== identity.name) {
    throw new AppError(
      'conflict',
      `${schemaLabel(address)} belongs to cluster ${row.name}, not ${identity.name}.`,
      {
        hint: 'Use a separate schema for every cluster (…?schema=name), or set ERRAND_CLUSTER to its name.',
      },
    );
  }
  return readSecret(row, address, identity.key);
}

/** The secret that a copy of this store needs to read signatures and sealed keys. Undefined if no node ever joined. */
export async function sharedSecret(
  pool: Pool,
  address: Address,
  key: string | undefined,
): Promise<Buffer | undefined> {
  const row = await clusterRow(pool);
  if (!row) return undefined;
  return row.fingerprint === unclaimed
    ? Buffer.from(row.secret!, 'hex')
    : readSecret(row, address, key);
}

/** Stores the secret of a copied store for the first node that joins. */
export async function setSharedSecret(pool: Pool, secret: Buffer): Promise<void> {
  await pool.query(
    `INSERT INTO cluster (id, name, secret, fingerprint) VALUES (1, '', $1, $2)
     ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, fingerprint = excluded.fingerprint`,
    [secret.toString('hex'), unclaimed],
  );
}

/** If two nodes start concurrently, one of them wins, and the other must have the same key. */
async function claim(pool: Pool, { secret }: ClusterRow, { name, key }: Identity): Promise<void> {
  const stored = key === undefined ? secret : seal(Buffer.from(secret!, 'hex'), key);
  await pool.query(
    'UPDATE cluster SET name = $1, secret = $2, fingerprint = $3 WHERE id = 1 AND fingerprint = $4',
    [name, stored, fingerprint(key), unclaimed],
  );
}

function readSecret(row: ClusterRow, address: Address, key: string | undefined): Buffer {
  if (row.fingerprint !== fingerprint(key)) {
    const what = key === undefined ? 'requires a cluster key' : 'has a different cluster key';
    throw new AppError('unauthorized', `${schemaLabel(address)} ${what}.`, {
      hint: 'Set the same ERRAND_CLUSTER_KEY on all nodes of the cluster, or on none.',
    });
  }
  if (key === undefined) return Buffer.from(row.secret!, 'hex');
  return row.secret === null ? deriveSecret(key) : unseal(row.secret, key);
}

async function clusterRow(pool: Pool): Promise<ClusterRow | undefined> {
  const { rows } = await pool.query<ClusterRow>(
    'SELECT name, secret, fingerprint FROM cluster WHERE id = 1',
  );
  return rows[0];
}

const schemaLabel = ({ schema, label }: Address): string => `Schema ${schema} at ${label}`;

const deriveSecret = (key: string): Buffer =>
  createHmac('sha256', key).update('errand cluster').digest();

const fingerprint = (key: string | undefined): string =>
  key === undefined
    ? 'none'
    : createHash('sha256').update(deriveSecret(key)).digest('hex').slice(0, 32);

const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;
const sealingKey = (key: string): Buffer =>
  createHmac('sha256', key).update('errand sealed secret').digest();

function seal(secret: Buffer, key: string): string {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, sealingKey(key), iv);
  const text = Buffer.concat([cipher.update(secret), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64');
}

function unseal(sealed: string, key: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64');
  const decipher = createDecipheriv(algorithm, sealingKey(key), bytes.subarray(0, ivBytes));
  decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]);
}
