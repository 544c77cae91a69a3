// Which route an operation and a dialect's table get.
import type { Dialect, DialectRoute } from '../../dialect.ts';
import type { Operation, Operations } from '../../operation.ts';
import { type InputShape, inputShape } from './input.ts';
import { Router } from './router.ts';

export type Route =
  | { type: 'operation'; operation: Operation; shape: InputShape }
  | { type: 'dialect'; dialect: string; route: DialectRoute };

export function routeOf(operation: Operation): { method: string; path: string } {
  return operation.http ?? { method: 'POST', path: `/api/${operation.name}` };
}

export function buildRouter(
  operations: Pick<Operations, 'list'>,
  dialects: readonly Dialect[],
): Router<Route> {
  const router = new Router<Route>();
  for (const operation of operations.list()) {
    const { method, path } = routeOf(operation);
    router.add(method, path, { type: 'operation', operation, shape: inputShape(operation) });
  }
  for (const { name, routes = [] } of dialects)
    for (const route of routes)
      router.add(route.method, route.path, { type: 'dialect', dialect: name, route });
  return router;
}
