// Loaded into a server before anything else (--import): it dies by SIGKILL at the statement that the test asks for, on
// SQLite and on PostgreSQL. The wish is looked for when a transaction begins; what it died at is noted beside it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { StatementSync } from 'node:sqlite';

export interface Death {
  /** Start of the statements that count; empty: every one from the change of a job to the end of its transaction. */
  sql: string;
  /** Which of them, from 1; for the empty one its place after that. */
  nth: number;
  when: 'before' | 'after';
}

/** The file that holds the wish; `${file}.done` tells the statement once it has happened. */
export const deathEnv = 'ERRAND_TEST_DEATH';
const file = process.env[deathEnv];

let wish: Death | undefined;
let count = 0;
/** What the present transaction has done so far, where there is one. */
let transaction: string[] | undefined;

function reached(sql: string, when: Death['when']): boolean {
  if (!wish || wish.when !== when) return false;
  if (wish.sql === '') {
    const first = transaction?.findIndex((one) => one.startsWith('UPDATE jobs')) ?? -1;
    return first >= 0 && transaction!.length - first === wish.nth;
  }
  if (!sql.trimStart().startsWith(wish.sql)) return false;
  count += 1;
  return count === wish.nth;
}

function around<T>(sql: string, run: () => T): T {
  if (/^\s*BEGIN/.test(sql) && !wish && file !== undefined && existsSync(file)) {
    wish = JSON.parse(readFileSync(file, 'utf8')) as Death;
    count = 0;
  }
  if (/^\s*BEGIN/.test(sql)) transaction = [];
  else transaction?.push(sql);
  if (reached(sql, 'before')) die(sql);
  if (/^(COMMIT|ROLLBACK)$/.test(sql)) transaction = undefined;
  const answer = run();
  if (wish?.when !== 'after') return answer;
  if (!(answer instanceof Promise)) {
    if (reached(sql, 'after')) die(sql);
    return answer;
  }
  return answer.then((value: unknown) => {
    if (reached(sql, 'after')) die(sql);
    return value;
  }) as T;
}

function die(sql: string): void {
  writeFileSync(`${file}.done`, sql);
  process.kill(process.pid, 'SIGKILL');
  for (;;);
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

function wrap(owner: object, name: string, sqlOf: (self: unknown, args: unknown[]) => string) {
  const methods = owner as Record<string, Method>;
  const original = methods[name]!;
  methods[name] = function wrapped(this: unknown, ...args: unknown[]) {
    return around(sqlOf(this, args), () => original.apply(this, args));
  };
}

if (file !== undefined) {
  const ofStatement = (self: unknown) => (self as StatementSync).sourceSQL;
  wrap(StatementSync.prototype, 'run', ofStatement);
  wrap(StatementSync.prototype, 'all', ofStatement);
  if (process.env.ERRAND_STORE !== undefined) {
    const require = createRequire(join(import.meta.dirname, '../../../src/app.ts'));
    const { Client } = require('pg') as { Client: { prototype: object } };
    wrap(Client.prototype, 'query', (_, [query]) =>
      typeof query === 'string' ? query : ((query as { text?: string }).text ?? ''),
    );
  }
}
