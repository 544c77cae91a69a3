// How a PostgreSQL server is reached: the address, the pool, the optional packages, and what a failed start says.
import type { Client, Pool, PoolConfig } from 'pg';
import type { PgBoss } from 'pg-boss';
import { AppError } from '../../errors.ts';
import { isInteger } from './sql.ts';

export interface Address {
  url: string;
  /** Where the ledger lives; the dispatcher's tables are in `<schema>_boss`. */
  schema: string;
  poolMax: number;
  /** Settings of the session that the address asks for, beside ours. */
  options: string;
  /** For messages: without the password. */
  shown: string;
}

export type Pg = typeof import('pg');

const versionMin = 15;
const poolMaxDefault = 10;
/** An answer that takes longer means a dead connection or a stuck server; the connection is given up. */
const queryTimeoutMs = 15_000;
const connectTimeoutMs = 5000;
const lockTimeoutMs = 10_000;

export function parseAddress(text: string): Address {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw new AppError('invalidInput', 'The store address is not a postgres:// URL.', {
      hint: 'Write postgres://user:password@host:5432/database?schema=errand; characters like @, /, # and % of a password as %40, %2F, %23 and %25.',
      cause: error,
    });
  }
  const schema = url.searchParams.get('schema') ?? 'errand';
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) {
    throw new AppError('invalidInput', `${schema} cannot be the name of a schema.`, {
      hint: 'Use lower-case letters, digits and _ (at most 41).',
    });
  }
  const poolMax = Number(url.searchParams.get('poolMax') ?? poolMaxDefault);
  if (!Number.isInteger(poolMax) || poolMax < 3 || poolMax > 500) {
    throw new AppError('invalidInput', 'poolMax in the store address must be 3 to 500.');
  }
  const options = url.searchParams.get('options') ?? '';
  // What is left in the address would replace ours, not join it.
  for (const ours of ['schema', 'poolMax', 'options']) url.searchParams.delete(ours);
  return {
    url: url.href,
    schema,
    poolMax,
    options,
    shown: `${url.hostname || url.searchParams.get('host') || 'localhost'}:${url.port || 5432}${url.pathname}`,
  };
}

export const bossSchema = (schema: string): string => `${schema}_boss`;

/** pg and pg-boss are optional packages: one machine alone needs neither. */
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
    `A PostgreSQL store needs the package ${name}, which is not installed.`,
    {
      hint: 'Run `npm install pg pg-boss` beside Errand, then start again.',
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

/** Connects once and refuses, before anything is started, what could not work later. */
export async function openPool(pg: Pg, address: Address): Promise<Pool> {
  const pool = new pg.Pool({
    ...connectionOptions(pg, address),
    max: address.poolMax,
    allowExitOnIdle: true,
    // All statements of a transaction go out together; the answers come back together.
    ...({ pipeline: true } as object),
  });
  // A broken idle connection is replaced at next use.
  pool.on('error', () => {});
  // Between two owners nobody listens to a connection, and an end that comes just then would end this process.
  pool.on('connect', (client) => client.on('error', () => {}));
  try {
    const { rows } = await pool.query<ServerFacts>(
      `SELECT current_setting('server_version_num')::int AS version,
         current_setting('server_version') AS shown, pg_is_in_recovery() AS standby`,
    );
    refuseServer(rows[0]!, address);
    return pool;
  } catch (error) {
    await pool.end().catch(() => {});
    throw databaseError(error, address);
  }
}

/** A connection of its own whose answers may take as long as they take: an index over millions of rows, a turn in line. */
export async function withoutHurry<T>(
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

export interface ServerFacts {
  /** `server_version_num`: 150004 is 15.4. */
  version: number;
  /** `server_version`, as people know it. */
  shown: string;
  standby: boolean;
}

/** What a server says of itself before anything is asked of it. */
export function refuseServer({ version, shown, standby }: ServerFacts, address: Address): void {
  if (version < versionMin * 10_000) {
    throw new AppError('unavailable', `PostgreSQL ${shown} at ${address.shown} is too old.`, {
      hint: `Errand needs PostgreSQL ${versionMin} or newer.`,
    });
  }
  if (standby) {
    throw new AppError('unavailable', `The server at ${address.shown} is a read-only standby.`, {
      hint: 'Give the address of the primary.',
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

/** What the caller is told about a failure of the database. Nothing of a failed command happened unless it says so. */
export function databaseError(error: unknown, address: Address): unknown {
  if (error instanceof AppError) return error;
  const { code = '', message = String(error) } = error as { code?: string; message?: string };
  const tell = (text: string, hint: string) =>
    new AppError('unavailable', text, { hint, cause: error });
  const known = knownFailure(code, address, message);
  if (known) return tell(...known);
  if (
    unreachable.has(code) ||
    /timeout|terminated|connection error|not queryable|closed/i.test(message)
  ) {
    return tell(
      `The database at ${address.shown} cannot be reached: ${message || code}.`,
      'Check that PostgreSQL runs there and that host, port and firewall are right; then try again.',
    );
  }
  // The server's own codes have five characters; these come from this side of the connection.
  if (code.length !== 5 && /SSL|TLS|CERT|SIGNATURE/.test(`${code} ${message}`)) {
    return tell(
      `No encrypted connection to the database at ${address.shown}: ${message || code}.`,
      'sslmode=verify-full wants a certificate that this machine trusts (sslrootcert=FILE names its issuer), sslmode=no-verify takes any, sslmode=disable none.',
    );
  }
  if (code === '22021') {
    return new AppError('invalidInput', 'Text with a NUL character cannot be kept in PostgreSQL.', {
      hint: 'Remove the NUL characters.',
      cause: error,
    });
  }
  return error;
}

function knownFailure(
  code: string,
  { shown }: Address,
  message: string,
): [string, string] | undefined {
  switch (code) {
    case '28P01':
      return [
        `The database at ${shown} refused the user or the password.`,
        'Check the user and the password in the store address.',
      ];
    case '28000':
      return [
        `The database at ${shown} refused the user or the way of connecting: ${message}.`,
        'Check the user in the store address and pg_hba.conf of the server; where it wants TLS, add ?sslmode=verify-full.',
      ];
    case '3D000':
      return [
        `There is no database ${shown}.`,
        'Create it (createdb), or correct the store address.',
      ];
    case '42501':
      return [
        `The database user lacks a right at ${shown}.`,
        'Grant it CREATE on the database (for `errand migrate`) and all rights on the schemas it made.',
      ];
    case '53300':
      return [
        `The database at ${shown} has no connection left.`,
        'Raise max_connections, or lower poolMax in the store address of the nodes.',
      ];
    case '53100':
      return [
        `The disk of the database at ${shown} is full: nothing was changed.`,
        'Free space there, then try again.',
      ];
    case '25006':
      return [`The database at ${shown} is read-only.`, 'Give the address of the primary.'];
    case '57P01':
    case '57P02':
    case '57P03':
      return [`The database at ${shown} is starting or stopping.`, 'Try again in a few seconds.'];
    case '57014':
    case '55P03':
      return [`The database at ${shown} was too busy to answer in time.`, 'Try again.'];
    default:
      return undefined;
  }
}
