// Connects to PostgreSQL: parses the address, opens the pool, loads the optional packages, and explains failures.
import type { Client, Pool, PoolConfig } from 'pg';
import type { PgBoss } from 'pg-boss';
import { AppError } from '../../errors.ts';
import { isInteger } from './sql.ts';

export interface Address {
  url: string;
  /** The schema of the ledger. The dispatcher's tables are in `<schema>_boss`. */
  schema: string;
  maxPool: number;
  /** Session settings from the address, added to ours. */
  options: string;
  /** For messages, without the password. */
  label: string;
}

export type Pg = typeof import('pg');

const minVersion = 15;
const defaultMaxPool = 10;
/** A query that takes longer means a dead connection or a stuck server. The connection is discarded. */
const queryTimeoutMs = 15_000;
const connectTimeoutMs = 5000;
const lockTimeoutMs = 10_000;

export function parseAddress(text: string): Address {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw new AppError('invalidInput', 'The store address is not a postgres:// URL.', {
      hint: 'Use postgres://user:password@host:5432/database?schema=errand. In the password, write @ as %40, / as %2F, # as %23 and % as %25.',
      cause: error,
    });
  }
  const schema = url.searchParams.get('schema') ?? 'errand';
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) {
    throw new AppError('invalidInput', `${schema} is not a valid schema name.`, {
      hint: 'Use lower-case letters, digits and _ (at most 41 characters).',
    });
  }
  const maxPool = Number(url.searchParams.get('maxPool') ?? defaultMaxPool);
  if (!Number.isInteger(maxPool) || maxPool < 3 || maxPool > 500) {
    throw new AppError('invalidInput', 'maxPool in the store address must be between 3 and 500.');
  }
  const options = url.searchParams.get('options') ?? '';
  // Parameters left in the address would replace our connection options.
  for (const ours of ['schema', 'maxPool', 'options']) url.searchParams.delete(ours);
  return {
    url: url.href,
    schema,
    maxPool,
    options,
    label: `${url.hostname || url.searchParams.get('host') || 'localhost'}:${url.port || 5432}${url.pathname}`,
  };
}

export const bossSchema = (schema: string): string => `${schema}_boss`;

/** pg and pg-boss are optional packages, because a single machine needs neither. */
export async function loadPg(): Promise<Pg> {
  try {
    return await import('pg');
  } catch (error) {
    throw missing('pg', error);
  }
}

export async function loadBoss(): Promise<typeof PgBoss> {
  try {
    return (await import('pg-boss')).PgBoss;
  } catch (error) {
    throw missing('pg-boss', error);
  }
}

function missing(name: string, cause: unknown): AppError {
  return new AppError(
    'unsupported',
    `A PostgreSQL store requires the package ${name}, which is not installed.`,
    {
      hint: 'Run `npm install pg pg-boss` in the folder where Errand is installed, then start again.',
      cause,
    },
  );
}

export function connectionOptions(pg: Pg, address: Address): PoolConfig {
  const { getTypeParser } = pg.types;
  return {
    connectionString: address.url,
    application_name: 'errand',
    options: `${address.options} -c search_path=${address.schema} -c lock_timeout=${lockTimeoutMs} -c idle_in_transaction_session_timeout=60000`,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: queryTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: {
      getTypeParser: (oid, format) =>
        isInteger(oid) ? Number : (getTypeParser(oid, format) as (text: string) => unknown),
    },
  };
}

/** Connects once and rejects servers that cannot work, before anything starts. */
export async function openPool(pg: Pg, address: Address): Promise<Pool> {
  const pool = new pg.Pool({
    ...connectionOptions(pg, address),
    max: address.maxPool,
    allowExitOnIdle: true,
    // Sends all statements of a transaction without waiting for each response.
    ...({ pipeline: true } as object),
  });
  // A broken idle connection is replaced on next use.
  pool.on('error', () => {});
  // Between two users nobody listens to a connection, and an unhandled error would end this process.
  pool.on('connect', (client) => client.on('error', () => {}));
  try {
    const { rows } = await pool.query<ServerFacts>(
      `SELECT current_setting('server_version_num')::int AS version,
         current_setting('server_version') AS release, pg_is_in_recovery() AS standby`,
    );
    rejectUnusableServer(rows[0]!, address);
    return pool;
  } catch (error) {
    await pool.end().catch(() => {});
    throw databaseError(error, address);
  }
}

/** Runs on a separate connection without a query timeout: building a large index or waiting for a lock may take long. */
export async function withoutQueryTimeout<T>(
  address: Address,
  run: (client: Client) => Promise<T>,
): Promise<T> {
  const pg = await loadPg();
  const client = new pg.Client({ ...connectionOptions(pg, address), query_timeout: 0 });
  client.on('error', () => {});
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end().catch(() => {});
  }
}

interface ServerFacts {
  /** `server_version_num`: 150004 is 15.4. */
  version: number;
  /** `server_version`, human-readable. */
  release: string;
  standby: boolean;
}

/** Rejects servers that are too old or read-only. */
export function rejectUnusableServer(
  { version, release, standby }: ServerFacts,
  address: Address,
): void {
  if (version < minVersion * 10_000) {
    throw new AppError('unavailable', `PostgreSQL ${release} at ${address.label} is too old.`, {
      hint: `Errand requires PostgreSQL ${minVersion} or newer.`,
    });
  }
  if (standby) {
    throw new AppError('unavailable', `The server at ${address.label} is a read-only standby.`, {
      hint: 'Use the address of the primary.',
    });
  }
}

const unreachable = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
]);

/** Turns a database failure into an error for the caller. Unless it says otherwise, the failed command changed nothing. */
export function databaseError(error: unknown, address: Address): unknown {
  if (error instanceof AppError) return error;
  const { code = '', message = String(error) } = error as { code?: string; message?: string };
  const unavailable = (text: string, hint: string) =>
    new AppError('unavailable', text, { hint, cause: error });
  const known = knownFailure(code, address, message);
  if (known) return unavailable(...known);
  if (
    unreachable.has(code) ||
    /timeout|terminated|connection error|not queryable|closed/i.test(message)
  ) {
    return unavailable(
      `Cannot reach the database at ${address.label}: ${message || code}.`,
      'Check that PostgreSQL is running there and that host, port and firewall are correct. Then try again.',
    );
  }
  // Server error codes have five characters; other codes come from the client side.
  if (code.length !== 5 && /SSL|TLS|CERT|SIGNATURE/.test(`${code} ${message}`)) {
    return unavailable(
      `Cannot encrypt the connection to the database at ${address.label}: ${message || code}.`,
      'sslmode=verify-full requires a certificate that this machine trusts (sslrootcert=FILE names its issuer), sslmode=no-verify accepts any, sslmode=disable turns encryption off.',
    );
  }
  if (code === '22021') {
    return new AppError(
      'invalidInput',
      'PostgreSQL cannot store text that contains a NUL character.',
      {
        hint: 'Remove the NUL characters.',
        cause: error,
      },
    );
  }
  return error;
}

function knownFailure(
  code: string,
  { label }: Address,
  message: string,
): [string, string] | undefined {
  switch (code) {
    case '28P01':
      return [
        `The database at ${label} rejected the user or password.`,
        'Check the user and password in the store address.',
      ];
    case '28000':
      return [
        `The database at ${label} rejected the user or connection method: ${message}.`,
        'Check the user in the store address and pg_hba.conf on the server. If the server requires TLS, add ?sslmode=verify-full.',
      ];
    case '3D000':
      return [
        `Database ${label} does not exist.`,
        'Create it with createdb, or correct the store address.',
      ];
    case '42501':
      return [
        `The database user lacks privileges at ${label}.`,
        'Grant it CREATE on the database (for `errand migrate`) and all privileges on the schemas of Errand.',
      ];
    case '53300':
      return [
        `The database at ${label} has no connections left.`,
        'Raise max_connections, or lower maxPool in the store address of the nodes.',
      ];
    case '53100':
      return [
        `The disk of the database at ${label} is full. Nothing was changed.`,
        'Free disk space there, then try again.',
      ];
    case '25006':
      return [`The database at ${label} is read-only.`, 'Use the address of the primary.'];
    case '57P01':
    case '57P02':
    case '57P03':
      return [`The database at ${label} is starting or stopping.`, 'Try again in a few seconds.'];
    case '57014':
    case '55P03':
      return [`The database at ${label} was too busy to respond in time.`, 'Try again.'];
    default:
      return undefined;
  }
}
