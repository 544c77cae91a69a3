// The authorization matrix: every operation and every dialect route, called with every type of key, on both stores. The
// expected results are in test/snapshots/authorization.txt, a table that is reviewed like any other contract.
// `node test/access/matrix.test.ts --write` writes it from the actual results. A new operation without a row fails here.
// The files matrix*.test.ts run its parts in parallel: operations and routes on each store.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { allMigrations, dialects } from '../../src/app.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import { routesWithInput, routeInput, heldRoutes, waitingRoutes } from './routes.ts';
import { operationRows, type OperationRow } from './rows.ts';
import { createWorld, holders, leaks, type CallResult, type Holder, type World } from './world.ts';

const file = join(import.meta.dirname, '..', 'snapshots', 'authorization.txt');
export const isWriting = process.argv.includes('--write');
/** This many rows are called concurrently. Rows that change what others read are called alone. */
const rowsAtATime = 8;
const alone =
  /^(purge_queue|take_jobs|poll_stops|\w+_node|list_jobs|list_queues|(create|open|claim)_wallet)|purge-queue|job-take|v1\/(wallets|auth\/claim)$|freeze$/;

export type Store = 'sqlite' | 'postgres';

async function worldOn(t: TestContext, store: Store): Promise<World> {
  const isHere = store === 'sqlite';
  return createWorld(t, isHere ? {} : { ERRAND_STORE: await migratedDatabase(allMigrations()) });
}

/** `yes`: the call was admitted, regardless of its result. */
function cellOf({ status, code, text }: CallResult): string {
  // CardZero returns this for an admitted key whose owner has several wallets.
  if (text.includes('API_KEY_NOT_BOUND_TO_WALLET')) return 'yes';
  if (status === 401) return '401';
  if (status === 403 && code !== 'egressRefused') return '403';
  return status === 404 ? '404' : 'yes';
}

const nameOf = ({ operation, about }: OperationRow): string =>
  about === undefined ? operation : `${operation} (${about})`;
const routes = dialects.flatMap((dialect) => dialect.routes ?? []);
const routeNames = routes.map(({ method, path }) => `${method} ${path}`);

interface Row {
  name: string;
  /** Creates what one call needs and calls with each key. */
  prepare(): Promise<(key: string | undefined) => Promise<CallResult>>;
  /** Read-only: all keys may use the same objects. */
  isRead: boolean;
}

const operationRow = (world: World, row: OperationRow, way: 'operation' | 'direct'): Row => ({
  name: nameOf(row),
  isRead: world.app.operations.get(row.operation).effect === 'read',
  prepare: async () => {
    const input = await row.input(world);
    return (key) => world[way](row.operation, input, key);
  },
});

const routeRow = (world: World, name: string): Row => ({
  name,
  isRead:
    (name.startsWith('GET') && !alone.test(name)) ||
    heldRoutes.has(name) ||
    waitingRoutes.test(name),
  prepare: async () => {
    const { path, body } = await routeInput(name, world);
    return (key) => world.send(name.slice(0, name.indexOf(' ')), path, key, body);
  },
});

async function cells(world: World, { name, prepare, isRead }: Row): Promise<[string, string[]]> {
  let call = await prepare();
  let isUsed = false;
  const callWith = async (holder: Holder): Promise<string> => {
    if (isUsed && !isRead) call = await prepare();
    const found = await call(world.keys[holder]);
    const cell = cellOf(found);
    isUsed = cell === 'yes';
    assert.deepEqual(leaks(holder, found.text), [], `${name} shows ${holder} what it must not see`);
    return cell;
  };
  if (isRead) return [name, await Promise.all(holders.map(callWith))];
  const row: string[] = [];
  for (const holder of holders) row.push(await callWith(holder));
  return [name, row];
}

async function tableOf(world: World, rows: readonly Row[]) {
  const table = new Map<string, string[]>();
  for (let i = 0; i < rows.length;) {
    const isAlone = alone.test(rows[i]!.name);
    let count = 1;
    while (!isAlone && count < rowsAtATime && rows[i + count] && !alone.test(rows[i + count]!.name))
      count++;
    const some = rows.slice(i, i + count);
    for (const [name, row] of await Promise.all(some.map((row) => cells(world, row))))
      table.set(name, row);
    i += count;
  }
  return table;
}

const width = 9;

function textOf(table: ReadonlyMap<string, readonly string[]>): string {
  const names = [...table.keys()];
  const first = Math.max(...names.map((name) => name.length)) + 2;
  const line = (name: string, row: readonly string[]) =>
    (
      name.padEnd(first) + row.map((cell) => cell.slice(0, width - 1).padEnd(width)).join('')
    ).trimEnd();
  return [...table].map(([name, row]) => line(name, row)).join('\n');
}

function columns(): string {
  const legend = [
    '# Who may call what. Columns: the type of key (test/access/world.ts). Rows: the operation or dialect route,',
    '# with its object in brackets (test/access/rows.ts). yes: admitted. 401: no valid key. 403: outside the scopes or',
    '# limits of the key. 404: reported as nonexistent. Keys that expired, were revoked or rotated get 401 everywhere.',
  ];
  return legend.join('\n');
}

function check(part: string, table: ReadonlyMap<string, readonly string[]>): void {
  const text = textOf(new Map([[`# ${part}`, holders], ...table]));
  const saved = readFileSync(file, { encoding: 'utf8', flag: 'a+' });
  const parts = new Map(
    saved.split('\n\n').map((one) => [/^# (\w+)  /m.exec(one)?.[1] ?? '', one]),
  );
  if (isWriting) {
    parts.set('', columns());
    parts.set(part, text);
    writeFileSync(file, `${[...parts.values()].map((one) => one.trimEnd()).join('\n\n')}\n`);
    return;
  }
  const hint =
    'If this is intended: node test/access/matrix.test.ts --write, then review the table';
  assert.deepEqual(text.split('\n'), parts.get(part)?.trimEnd().split('\n'), hint);
}

/** On PostgreSQL without HTTP: interfaces do not depend on the store, and the same calls take half the time. */
export function testOperations(store: Store): void {
  test(`every operation with every type of key, on ${store}`, async (t) => {
    const world = await worldOn(t, store);
    const declared = world.app.operations.list().filter(({ reach }) => reach !== undefined);
    const all = world.app.operations.list().map(({ name }) => name);
    await t.test('every operation declares its reach and has a row', () => {
      assert.deepEqual(
        all.filter((name) => !declared.some((one) => one.name === name)),
        [],
        'limited keys cannot call an operation without `reach`',
      );
      const rows = new Set(operationRows.map(({ operation }) => operation));
      assert.deepEqual(all.toSorted(), [...rows].toSorted(), 'rows.ts matches the operation list');
    });
    await t.test('operations', async () => {
      const way = store === 'postgres' ? 'direct' : 'operation';
      const rows = operationRows.map((row) => operationRow(world, row, row.way ?? way));
      check('operations', await tableOf(world, rows));
    });
  });
}

export function testRoutes(store: Store): void {
  test(`every dialect route with every type of key, on ${store}`, async (t) => {
    const world = await worldOn(t, store);
    assert.deepEqual(
      routesWithInput().filter((name) => !routeNames.includes(name)),
      [],
      'routes.ts',
    );
    await t.test('an expired, revoked or rotated key is rejected everywhere', () =>
      endedKeys(world),
    );
    await t.test('dialect routes', async () => {
      const held = routeNames.filter((name) => heldRoutes.has(name));
      // Last, because a frozen wallet cannot hire.
      const others = routeNames
        .filter((name) => !heldRoutes.has(name))
        .toSorted((a, b) => Number(a.endsWith('freeze')) - Number(b.endsWith('freeze')));
      const waiting = held.map((name) => cells(world, routeRow(world, name)));
      const table = await tableOf(
        world,
        others.map((name) => routeRow(world, name)),
      );
      await world.stopInterfaces();
      for (const [name, row] of await Promise.all(waiting)) table.set(name, row);
      check('routes', new Map(routeNames.map((name) => [name, table.get(name)!])));
    });
  });
}

async function endedKeys(world: World): Promise<void> {
  for (const [ending, key] of Object.entries(world.ended)) {
    const responses = await Promise.all([
      ...operationRows
        .filter(
          ({ operation }, n) => operationRows.findIndex((one) => one.operation === operation) === n,
        )
        .map(
          async ({ operation }) => [operation, await world.operation(operation, {}, key)] as const,
        ),
      ...routes
        // A remote's callback is authenticated by its own token.
        .filter(({ path }) => !path.startsWith('/v2/hooks/'))
        .map(
          async ({ method, path }) =>
            [path, await world.send(method, path.replace(/[{}*]/g, ''), key)] as const,
        ),
    ]);
    for (const [name, response] of responses)
      assert.equal(response.status, 401, `${name} with a key that ${ending}`);
  }
}
