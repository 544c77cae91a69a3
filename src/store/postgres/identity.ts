// Which cluster a schema belongs to. The first node writes the name and what all nodes share; later ones must bring the
// same, so that two clusters never work on one schema by mistake.
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { AppError } from '../../errors.ts';
import type { Address } from './open.ts';

export interface Identity {
  name: string;
  /** Given to every node by its operator; without one the database keeps a secret that was made for it. */
  key: string | undefined;
}

/** Answers the secret that all nodes of the cluster share. */
export async function joinCluster(pool: Pool, address: Address, wish: Identity): Promise<Buffer> {
  const made = wish.key === undefined ? randomBytes(32).toString('hex') : null;
  await pool.query(
    `INSERT INTO cluster (id, name, secret, fingerprint) VALUES (1, $1, $2, $3)
     ON CONFLICT (id) DO NOTHING`,
    [wish.name, made, fingerprint(wish.key)],
  );
  const { rows } = await pool.query('SELECT name, secret, fingerprint FROM cluster WHERE id = 1');
  const row = rows[0] as { name: string; secret: string | null; fingerprint: string };
  const where = `Schema ${address.schema} at ${address.shown}`;
  if (row.name !== wish.name) {
    throw new AppError(
      'conflict',
      `${where} belongs to the cluster ${row.name}, not ${wish.name}.`,
      {
        hint: 'Give every cluster a schema of its own (…?schema=name), or set ERRAND_CLUSTER to its name.',
      },
    );
  }
  if (row.fingerprint !== fingerprint(wish.key)) {
    const what = wish.key === undefined ? 'needs a cluster key' : 'has another cluster key';
    throw new AppError('unauthorized', `${where} ${what}.`, {
      hint: 'All nodes of a cluster need the same ERRAND_CLUSTER_KEY (or none of them any).',
    });
  }
  return row.secret === null ? derived(wish.key!) : Buffer.from(row.secret, 'hex');
}

const derived = (key: string): Buffer =>
  createHmac('sha256', key).update('errand cluster').digest();

const fingerprint = (key: string | undefined): string =>
  key === undefined ? 'none' : createHash('sha256').update(derived(key)).digest('hex').slice(0, 32);
