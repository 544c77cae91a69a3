// Preloaded into a server (--import): kills it with SIGKILL at a statement chosen by the test, on SQLite and PostgreSQL. The
// file with the kill point is read when a transaction begins; the statement is then recorded next to that file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { StatementSync } from 'node:sqlite';

export interface KillPoint {
  /** Prefix of the statements to count; empty: all statements from the job update to the end of its transaction. */
  sql: string;
  /** Which of them, counted from 1. */
  nth: number;
  when: 'before' | 'after';
}

/** File with the kill point; `${file}.done` contains the statement afterwards. */
export const killPointEnv = 'ERRAND_TEST_KILL_POINT';
const file = process.env[killPointEnv];

let killPoint: KillPoint | undefined;
let count = 0;
/** The statements of the current transaction, if there is one. */
let transaction: string[] | undefined;

function reached(sql: string, when: KillPoint['when']): boolean {
  if (!killPoint || killPoint.when !== when) return false;
  if (killPoint.sql === '') {
    const first = transaction?.findIndex((one) => one.startsWith('UPDATE jobs')) ?? -1;
    return first >= 0 && transaction!.length - first === killPoint.nth;
  }
  if (!sql.trimStart().startsWith(killPoint.sql)) return false;
  count += 1;
  return count === killPoint.nth;
}

function around<T>(sql: string, run: () => T): T {
  if (/^\s*BEGIN/.test(sql) && !killPoint && file !== undefined && existsSync(file)) {
    killPoint = JSON.parse(readFileSync(file, 'utf8')) as KillPoint;
    count = 0;
  }
  if (/^\s*BEGIN/.test(sql)) transaction = [];
  else transaction?.push(sql);
  if (reached(sql, 'before')) die(sql);
  if (/^(COMMIT|ROLLBACK)$/.test(sql)) transaction = undefined;
  const answer = run();
  if (killPoint?.when !== 'after') return answer;
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
