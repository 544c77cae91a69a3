// Builds the router from the operations and the dialect routes.
import type { Dialect, DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import type { Operation, Operations } from '../../operation.ts';
import { Router, type RouteMatch } from './router.ts';

export type Route =
  | { type: 'operation'; operation: Operation }
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
    router.add(method, path, { type: 'operation', operation });
  }
  for (const { name, routes = [] } of dialects)
    for (const route of routes)
      router.add(route.method, route.path, { type: 'dialect', dialect: name, route });
  return router;
}

export function wrongMethod(method: string, path: string, found: RouteMatch<Route>): AppError {
  const allow = [...found.methods.keys()].toSorted();
  return new AppError('methodNotAllowed', `${path} does not support ${method}.`, {
    hint: `Supported methods: ${allow.join(', ')}.`,
    data: { allow },
  });
}

export function unknownPath(path: string): AppError {
  return new AppError('notFound', `Route ${path} does not exist.`, {
    hint: 'GET /openapi.json lists every route.',
  });
}
